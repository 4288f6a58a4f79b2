// Two armies on their ground: health, reserves, targets, deaths and sight.
function Scene(model) {
  var units = model.kinds.length, agents = model.agents, full = 255;
  var positions = unpacked(model.positions, Uint16Array), health = unpacked(model.health, Uint8Array);
  var reserve = unpacked(model.reserve, Uint8Array);
  var living = unpacked(model.living, Uint8Array), targets = unpacked(model.targets, Int16Array);
  var radii = unpacked(model.radii, Float32Array), sight = unpacked(model.sight, Float32Array);
  var headings = model.headings ? unpacked(model.headings, Uint16Array) : null;
  var ground = unpacked(model.ground, Uint8Array), columns = model.size[0], rows = model.size[1];
  var background = document.createElement("canvas"), fog = document.createElement("canvas");
  var drawnAt = 0, scale = 1, size = [0, 0], edges;

  // Left, right, lower and upper end of what is drawn, in cells: where units come to, or with sight
  // all the ground; with a margin.
  function sides(whole) {
    var box = [columns, 0, rows, 0], least = 10;
    ground.forEach(function (open, k) {
      var column = k % columns, row = Math.floor(k / columns);
      if (open) {
        box = [Math.min(box[0], column), Math.max(box[1], column + 1), Math.min(box[2], row), Math.max(box[3], row + 1)];
      }
    });
    return [0, 1].reduce(function (ends, axis) {
      var first = Math.max(0, box[2 * axis] - 1), last = Math.min(model.size[axis], box[2 * axis + 1] + 1);
      var middle = model.low[axis] + model.span[axis] / 2, reach = Math.max(least, model.span[axis] + 6) / 2;
      return ends.concat(whole ? [first, last] : [Math.max(first, middle - reach), Math.min(last, middle + reach)]);
    }, []);
  }

  function x(cells) { return (cells - edges[0]) * scale; }
  function y(cells) { return (edges[3] - cells) * scale; }
  function side(u) { return model.sides[u < agents ? 0 : 1]; }
  function alive(k, u) { return living[k * units + u] > 0; }
  function next(k) { return Math.min(k + 1, steps.length - 1); }
  function mixed(values, now, u) {
    var one = values[now.k * units + u];
    return one + (values[next(now.k) * units + u] - one) * now.part;
  }

  function at(now, u) {
    var i = 2 * (now.k * units + u), j = 2 * (next(now.k) * units + u);
    return [
      x(model.low[0] + (positions[i] + (positions[j] - positions[i]) * now.part) / 65535 * model.span[0]),
      y(model.low[1] + (positions[i + 1] + (positions[j + 1] - positions[i + 1]) * now.part) / 65535 * model.span[1]),
    ];
  }

  function paintBackground() {
    drawnAt = scale;
    var context = prepared(background, size[0], size[1]);
    context.fillStyle = WALL;
    context.fillRect(0, 0, size[0], size[1]);
    context.fillStyle = FLOOR;
    ground.forEach(function (open, k) {
      if (!open) { return; }
      var left = Math.round(x(k % columns)), upper = Math.round(y(Math.floor(k / columns) + 1));
      context.fillRect(left, upper, Math.round(x(k % columns + 1)) - left, Math.round(y(Math.floor(k / columns))) - upper);
    });
  }

  function radius(u) { return Math.max(2.5, radii[u] * scale); }

  function cross(context, place, u) {
    var reach = Math.max(2.5, Math.min(6, 0.6 * radius(u)));
    context.strokeStyle = side(u);
    context.globalAlpha = 0.55;
    context.lineWidth = 1.6;
    context.beginPath();
    context.moveTo(place[0] - reach, place[1] - reach);
    context.lineTo(place[0] + reach, place[1] + reach);
    context.moveTo(place[0] - reach, place[1] + reach);
    context.lineTo(place[0] + reach, place[1] - reach);
    context.stroke();
    context.globalAlpha = 1;
  }

  function arc(context, place, reach, share, colour, width) {
    context.lineWidth = width;
    context.strokeStyle = "#d4d4d4";
    disc(context, place[0], place[1], reach);
    context.stroke();
    context.strokeStyle = colour;
    context.beginPath();
    context.arc(place[0], place[1], reach, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * share);
    context.stroke();
  }

  function unit(context, now, place, u) {
    var reach = radius(u), width = Math.min(5, Math.max(1.5, 0.18 * reach));
    context.globalAlpha = alive(next(now.k), u) ? 1 : 1 - now.part;
    context.fillStyle = PAPER;
    disc(context, place[0], place[1], reach + 1);
    context.fill();
    context.fillStyle = side(u) + "a6";
    disc(context, place[0], place[1], reach);
    context.fill();
    arc(context, place, reach, mixed(health, now, u) / full, model.healthColour, width);
    if (model.reserves[u]) {
      arc(context, place, reach + width + 1, mixed(reserve, now, u) / full, model.reserveColour, width);
    }
    if (u === followed) {
      context.strokeStyle = INK;
      context.lineWidth = 2;
      disc(context, place[0], place[1], reach + 2 * width + 2);
      context.stroke();
    }
    if (reach >= 6) {
      context.fillStyle = INK;
      context.font = "600 " + Math.min(1.1 * reach, 16) + "px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(model.letters[u], place[0], place[1] + 0.5);
    }
    context.globalAlpha = 1;
  }

  function paintFog(context, now, places) {
    var cover = prepared(fog, size[0], size[1]), alone = followed >= 0 && followed < agents && alive(now.k, followed);
    cover.fillStyle = "rgba(24, 28, 34, 0.34)";
    cover.fillRect(0, 0, size[0], size[1]);
    cover.globalCompositeOperation = "destination-out";
    cover.fillStyle = "#000000";
    for (var a = 0; a < agents; a++) {
      if (alive(now.k, a) && (!alone || a === followed)) {
        cover.beginPath();
        area(cover, now, places[a], a);
        cover.fill();
        disc(cover, places[a][0], places[a][1], 1.5 * radius(a));  // itself, where it sees a cone
        cover.fill();
      }
    }
    cover.globalCompositeOperation = "source-over";
    context.drawImage(fog, 0, 0, size[0], size[1]);
  }

  function area(context, now, place, a) {
    if (!headings) { context.arc(place[0], place[1], sight[a] * scale, 0, 2 * Math.PI); return; }
    var middle = -headings[now.k * units + a] / 65536 * 2 * Math.PI;
    context.moveTo(place[0], place[1]);
    context.arc(place[0], place[1], sight[a] * scale, middle - model.view / 2, middle + model.view / 2);
    context.closePath();
  }

  function left(k, first, last) {
    var count = 0;
    for (var u = first; u < last; u++) { count += alive(k, u); }
    return count;
  }

  function name(u) {
    return u < agents ? data.agents[u] : "enemy " + model.kinds[u].replace(/_/g, " ") + " " + (u - agents);
  }

  function state(k, u) {
    var i = k * units + u, target = targets[i], title = name(u) + (u < agents ? " (" + data.players[u] + ")" : "");
    if (!alive(k, u)) { return [[title, "fallen"]]; }
    var rows = [[title, "alive"], ["its health", Math.round(100 * health[i] / full) + " %"]];
    if (model.reserves[u]) { rows.push(["its " + model.reserves[u], Math.round(100 * reserve[i] / full) + " %"]); }
    return rows.concat([["it aims at", target >= 0 && alive(k, target) ? name(target) : "no unit"]]);
  }

  this.smooth = true;
  this.least = 0;
  this.most = Infinity;
  this.frame = function () {
    edges = sides(element("sight").checked);
    this.aspect = (edges[3] - edges[2]) / (edges[1] - edges[0]);
    drawnAt = 0;
  };
  this.resize = function (width, height) {
    size = [width, height];
    scale = width / (edges[1] - edges[0]);
  };
  this.paint = function (context, now) {
    if (drawnAt !== scale) { paintBackground(); }
    context.drawImage(background, 0, 0, size[0], size[1]);
    var places = [], lined = element("lines").checked;
    for (var u = 0; u < units; u++) { places.push(at(now, u)); }
    places.forEach(function (place, u) { if (!alive(now.k, u)) { cross(context, place, u); } });
    places.forEach(function (place, u) {
      var target = targets[now.k * units + u];
      if (!alive(now.k, u) || target < 0 || !alive(now.k, target) || !(lined || u === followed)) { return; }
      context.strokeStyle = side(u);
      context.globalAlpha = u === followed ? 1 : 0.5;
      context.lineWidth = u === followed ? 2 : 1.1;
      context.beginPath();
      context.moveTo(place[0], place[1]);
      context.lineTo(places[target][0], places[target][1]);
      context.stroke();
      context.globalAlpha = 1;
    });
    places.forEach(function (place, u) { if (alive(now.k, u)) { unit(context, now, place, u); } });
    if (element("sight").checked) { paintFog(context, now, places); }
  };
  this.facts = function (k) {
    var rows = [["agents left", left(k, 0, agents) + " / " + agents], ["enemies left", left(k, agents, units) + " / " + (units - agents)]];
    if (followed >= 0) { rows = rows.concat(state(k, followed)); }
    return rows;
  };
  this.pick = function (px, py) {
    var now = present(), best = 20, nearest = -1;
    for (var u = 0; u < units; u++) {
      var p = at(now, u), far = Math.hypot(p[0] - px, p[1] - py) - radius(u);
      if (alive(now.k, u) && far < best) { best = far; nearest = u; }
    }
    followed = nearest === followed ? -1 : nearest;
  };
  this.marks = [[0, agents], [agents, units]].map(function (ends, n) {
    return {
      colour: model.sides[n],
      width: 2.5,
      shares: steps.map(function (_, k) { return k ? left(k - 1, ends[0], ends[1]) - left(k, ends[0], ends[1]) : 0; }),
    };
  });
  element("sight").addEventListener("change", resize);
  element("kinds").textContent = model.letters
    .map(function (letter, u) { return letter + " " + model.kinds[u].replace(/_/g, " "); })
    .filter(function (text, u, all) { return all.indexOf(text) === u; })
    .join(", ");
}
