// Pictures of a game that has no scene.
function Scene(model) {
  var images = model.pictures.map(function (source) {
    var image = new Image();
    image.onload = function () { if (images[present().k] === image) { paint(); } };
    image.src = source;
    return image;
  });
  this.smooth = false;
  this.aspect = model.height / model.width;
  this.least = Math.min(model.width, 600);  // smaller, its letters could not be read
  this.most = model.width;
  this.marks = [];
  this.resize = function () {};
  this.paint = function (context, now, width, height) {
    var image = images[now.k];
    if (image.complete && image.naturalWidth) { context.drawImage(image, 0, 0, width, height); }
  };
  this.facts = function () { return []; };
  this.pick = function () {};
}
