// A world of cells: ground, things and agents, which move from cell to cell.
function Scene(model) {
  var agents = data.agents.length, columns = model.size[0], rows = model.size[1];
  var places = model.fields.places, things = model.fields.things, numbers = model.fields.numbers;
  var headings = model.fields.headings, marked = model.fields.marked;
  var background = document.createElement("canvas"), drawnAt = 0, scale = 1, size = [0, 0];
  var shades = [FLOOR, WALL, "#cfe3f1", "#e6dcc4", "#d5e8d4", "#e3d3e4"], words = [];
  model.kinds.forEach(function (kind) { if (words.indexOf(kind) < 0) { words.push(kind); } });

  function shade(number) { return number < 2 ? shades[number] : shades[2 + (number - 2) % 4]; }
  function colour(k) { return model.colours[k % model.colours.length]; }
  // Things have colours from the end of those that agents have.
  function tint(n) { return colour(4 + 4 * words.indexOf(model.kinds[n])); }
  function next(k) { return Math.min(k + 1, steps.length - 1); }

  // Middle of an agent or a thing; one that has just come or goes does not move.
  function at(field, now, n) {
    var here = field.at(now.k), there = field.at(next(now.k)), part = there[2 * n] < 0 ? 0 : now.part;
    return [1, 0].map(function (axis) {
      return (here[2 * n + axis] + (there[2 * n + axis] - here[2 * n + axis]) * part + 0.5) * scale;
    });
  }

  function paintBackground() {
    drawnAt = scale;
    var context = prepared(background, size[0], size[1]);
    model.ground.forEach(function (number, k) {
      var left = Math.round(k % columns * scale), upper = Math.round(Math.floor(k / columns) * scale);
      context.fillStyle = shade(number);
      context.fillRect(left, upper, Math.ceil(scale), Math.ceil(scale));
      if (scale >= 8) {
        context.strokeStyle = "#e4e4e4";
        context.strokeRect(left + 0.5, upper + 0.5, Math.ceil(scale), Math.ceil(scale));
      }
    });
  }

  function written(context, text, place, ink) {
    if (text < 0 || scale < 14) { return; }
    context.fillStyle = ink;
    context.font = "600 " + Math.min(0.42 * scale, 18) + "px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(text, place[0], place[1] + 0.5);
  }

  function thing(context, now, n) {
    if (things.at(now.k)[2 * n] < 0) { return; }
    var place = at(things, now, n), reach = 0.33 * scale;
    context.fillStyle = tint(n);
    context.strokeStyle = INK;
    context.lineWidth = 1;
    context.beginPath();
    context.rect(place[0] - reach, place[1] - reach, 2 * reach, 2 * reach);
    context.fill();
    context.stroke();
    written(context, numbers.at(now.k)[agents + n], place, PAPER);
  }

  function agent(context, now, a) {
    var place = at(places, now, a), reach = 0.4 * scale, heading = headings.at(now.k)[a];
    context.fillStyle = colour(a);
    context.strokeStyle = INK;
    context.lineWidth = a === followed ? 3 : 1;
    disc(context, place[0], place[1], reach);
    context.fill();
    context.stroke();
    if (heading >= 0) {
      var ahead = [[0, -1], [1, 0], [0, 1], [-1, 0]][heading];
      context.fillStyle = INK;
      disc(context, place[0] + 0.75 * reach * ahead[0], place[1] + 0.75 * reach * ahead[1], Math.max(1.5, 0.09 * scale));
      context.fill();
    }
    if (marked.at(now.k)[a]) {
      context.strokeStyle = model.mark;
      context.lineWidth = Math.max(2, 0.08 * scale);
      disc(context, place[0], place[1], 1.12 * reach);
      context.stroke();
    }
    var number = numbers.at(now.k)[a];
    written(context, number < 0 && agents > 1 ? a : number, place, PAPER);
  }

  function there(k) {
    var count = 0;
    for (var n = 0; n < model.kinds.length; n++) { count += things.at(k)[2 * n] >= 0; }
    return count;
  }

  this.smooth = true;
  this.aspect = rows / columns;
  this.least = 0;
  this.most = Math.max(320, 72 * columns);
  this.resize = function (width, height) {
    size = [width, height];
    scale = width / columns;
  };
  this.paint = function (context, now) {
    if (drawnAt !== scale) { paintBackground(); }
    context.drawImage(background, 0, 0, size[0], size[1]);
    for (var n = 0; n < model.kinds.length; n++) { thing(context, now, n); }
    for (var a = 0; a < agents; a++) { agent(context, now, a); }
  };
  this.facts = function (k) {
    var shown = [];
    if (model.kinds.length) { shown.push(["things there", there(k) + " / " + model.kinds.length]); }
    if (followed >= 0) {
      var place = places.at(k);
      shown.push([data.agents[followed] + " (" + data.players[followed] + ")",
        "row " + place[2 * followed] + ", column " + place[2 * followed + 1]]);
    }
    return shown;
  };
  this.pick = function (px, py) {
    var now = present(), best = 0.5 * scale, nearest = -1;
    for (var a = 0; a < agents; a++) {
      var p = at(places, now, a), far = Math.hypot(p[0] - px, p[1] - py);
      if (far < best) { best = far; nearest = a; }
    }
    followed = nearest === followed ? -1 : nearest;
  };
  this.marks = [{ colour: INK, width: 2, shares: steps.map(function (_, k) { return k ? Math.max(0, there(k - 1) - there(k)) : 0; }) }];
  [["grounds", model.grounds.map(function (word, k) { return [word, shade(k)]; })],
    ["kinds", words.map(function (word) { return [word, tint(model.kinds.indexOf(word))]; })]].forEach(function (list) {
    list[1].forEach(function (entry) {
      var mark = document.createElement("i");
      mark.className = "swatch";
      mark.style.background = entry[1];
      element(list[0]).appendChild(mark);
      element(list[0]).appendChild(document.createTextNode(" " + entry[0].replace(/_/g, " ") + " "));
    });
  });
}
