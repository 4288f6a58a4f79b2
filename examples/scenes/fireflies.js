// Fireflies on a circle; ``model.fields`` holds the arrays that the scene returns.
function Scene(model) {
  var agents = data.agents.length, places = model.fields.places.at(0);
  var charge = model.fields.charge, lit = model.fields.lit, side = 0;

  function at(a) { return [side * (0.5 + 0.4 * places[2 * a]), side * (0.5 - 0.4 * places[2 * a + 1])]; }

  function flashes(k) { return lit.at(k).reduce(function (sum, one) { return sum + one; }, 0); }

  this.smooth = false;
  this.aspect = 1;
  this.least = 0;
  this.most = 640;
  this.resize = function (width) { side = width; };
  this.paint = function (context, now) {
    context.fillStyle = "#1c2733";
    context.fillRect(0, 0, side, side);
    for (var a = 0; a < agents; a++) {
      var place = at(a), radius = side / 40;
      context.strokeStyle = a === followed ? PAPER : "#8fa3b5";
      context.lineWidth = a === followed ? 4 : 2.5;
      context.beginPath();
      context.arc(place[0], place[1], radius, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * charge.at(now.k)[a]);
      context.stroke();
      context.fillStyle = lit.at(now.k)[a] ? "#ffe066" : "#3a4a5a";
      disc(context, place[0], place[1], 0.7 * radius);
      context.fill();
    }
  };
  this.facts = function (k) { return [["flashing now", flashes(k) + " / " + agents]]; };
  this.pick = function (px, py) {
    var nearest = -1, best = side / 20;
    for (var a = 0; a < agents; a++) {
      var place = at(a), far = Math.hypot(place[0] - px, place[1] - py);
      if (far < best) { best = far; nearest = a; }
    }
    followed = nearest === followed ? -1 : nearest;
  };
  this.marks = [{ colour: "#e0a800", width: 2, shares: steps.map(function (_, k) { return flashes(k); }) }];
}
