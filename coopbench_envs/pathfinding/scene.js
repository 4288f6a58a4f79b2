// Discs in the plane, with goals, trails and contacts.
function Scene(model) {
  var agents = data.agents.length;
  var positions = unpacked(model.positions, Uint16Array), goals = unpacked(model.goals, Uint16Array);
  var walls = unpacked(model.walls, Uint16Array), flags = unpacked(model.flags, Uint8Array);
  var radii = unpacked(model.radii, Float32Array), goalRadii = unpacked(model.goalRadii, Float32Array);
  var headings = model.headings ? unpacked(model.headings, Uint16Array) : null;
  var turning = new Array(agents).fill(false);
  var background = document.createElement("canvas"), drawnAt = 0, scale = 1, size = [0, 0];
  var extent = [model.to[0] - model.from[0], model.to[1] - model.from[1]];
  if (headings) { headings.forEach(function (turn, k) { if (turn) { turning[k % agents] = true; } }); }

  function x(tick) { return (model.low[0] + tick / 65535 * model.span[0] - model.from[0]) * scale; }
  function y(tick) { return (model.to[1] - model.low[1] - tick / 65535 * model.span[1]) * scale; }

  function at(now, a) {
    var k = now.k, i = 2 * (k * agents + a), j = 2 * (Math.min(k + 1, steps.length - 1) * agents + a);
    return [
      x(positions[i] + (positions[j] - positions[i]) * now.part),
      y(positions[i + 1] + (positions[j + 1] - positions[i + 1]) * now.part),
    ];
  }

  function row(k) {
    var low = 0;
    while (low + 1 < model.goalsFrom.length && model.goalsFrom[low + 1] <= k) { low++; }
    return low;
  }

  function paintBackground() {
    drawnAt = scale;
    var context = prepared(background, size[0], size[1]);
    context.fillStyle = FLOOR;
    context.fillRect(-(model.world[0] + model.from[0]) * scale, (model.to[1] - model.world[1]) * scale,
      2 * model.world[0] * scale, 2 * model.world[1] * scale);
    context.fillStyle = WALL;
    for (var k = 0; k < walls.length; k += 2) {
      disc(context, x(walls[k]), y(walls[k + 1]), Math.max(1, model.wallRadius * scale));
      context.fill();
    }
  }

  function trail(context, now, a, length) {
    var first = Math.max(0, place(steps[now.k] - length)), count = now.k - first;
    var stride = Math.max(1, Math.ceil(count / 300)), parts = 6, end = at(now, a);
    context.strokeStyle = colour(a);
    for (var part = 0; part < parts; part++) {
      var from = first + Math.floor(count * part / parts), to = first + Math.floor(count * (part + 1) / parts);
      context.globalAlpha = length === Infinity ? 0.55 : 0.12 + 0.6 * (part + 1) / parts;
      context.beginPath();
      for (var k = from; k < to; k += stride) { point(k); }
      point(to);
      if (part === parts - 1) { context.lineTo(end[0], end[1]); }
      context.stroke();
    }
    context.globalAlpha = 1;
    function point(k) {
      var i = 2 * (k * agents + a);
      context.lineTo(x(positions[i]), y(positions[i + 1]));
    }
  }

  function goal(context, now, a, place, lined) {
    var i = 2 * (row(now.k) * agents + a), gx = x(goals[i]), gy = y(goals[i + 1]);
    var radius = Math.max(2, goalRadii[a] * scale);
    context.strokeStyle = colour(a);
    if (lined && !(flag(now.k, a) & 1)) {
      context.globalAlpha = 0.45;
      context.lineWidth = a === followed ? 2 : 1.2;
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(place[0], place[1]);
      context.lineTo(gx, gy);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
    }
    context.fillStyle = PAPER;
    disc(context, gx, gy, radius + 4);
    context.fill();
    context.lineWidth = 1.5;
    context.stroke();
    context.fillStyle = colour(a);
    disc(context, gx, gy, radius);
    context.fill();
  }

  function agent(context, now, a, place) {
    var radius = Math.max(3, radii[a] * scale), touching = flag(now.k, a) & 2;
    if (touching) {
      context.strokeStyle = model.contact;
      context.lineWidth = 2.5;
      disc(context, place[0], place[1], radius + 4);
      context.stroke();
    }
    context.fillStyle = colour(a);
    context.strokeStyle = INK;
    context.lineWidth = a === followed ? 3 : 1;
    disc(context, place[0], place[1], radius);
    context.fill();
    context.stroke();
    if (turning[a]) { nose(context, now, a, place, radius); }
    if (radius >= 8) {
      context.fillStyle = PAPER;
      context.font = "600 " + Math.min(radius, 15) + "px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(a, place[0], place[1] + 0.5);
    }
  }

  function nose(context, now, a, place, radius) {
    var one = headings[now.k * agents + a], two = headings[Math.min(now.k + 1, steps.length - 1) * agents + a];
    var turn = ((two - one + 98304) % 65536) - 32768;  // the shorter way round
    var angle = (one + turn * now.part) / 65536 * 2 * Math.PI, reach = radius + 5;
    context.strokeStyle = INK;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(place[0] + 0.6 * radius * Math.cos(angle), place[1] - 0.6 * radius * Math.sin(angle));
    context.lineTo(place[0] + reach * Math.cos(angle), place[1] - reach * Math.sin(angle));
    context.stroke();
  }

  function flag(k, a) { return flags[k * agents + a]; }
  function colour(a) { return model.colours[a % model.colours.length]; }

  function counted(k, bit) {
    var count = 0;
    for (var a = 0; a < agents; a++) { count += (flag(k, a) & bit) > 0; }
    return count;
  }

  this.smooth = true;
  this.aspect = extent[1] / extent[0];
  this.least = 0;
  this.most = Infinity;
  this.resize = function (width, height) {
    size = [width, height];
    scale = width / extent[0];
  };
  this.paint = function (context, now) {
    if (drawnAt !== scale) { paintBackground(); }
    context.drawImage(background, 0, 0, size[0], size[1]);
    var places = [], length = Number(element("trail").value), lined = element("lines").checked;
    for (var a = 0; a < agents; a++) { places.push(at(now, a)); }
    context.lineJoin = "round";
    places.forEach(function (place, a) { goal(context, now, a, place, lined || a === followed); });
    places.forEach(function (place, a) {
      context.lineWidth = a === followed ? 2.5 : 1.5;
      if (a === followed) { trail(context, now, a, Infinity); } else if (length) { trail(context, now, a, length); }
    });
    places.forEach(function (place, a) { agent(context, now, a, place); });
    if (followed >= 0) { agent(context, now, followed, places[followed]); }
  };
  this.facts = function (k) {
    var rows = [["on goal", counted(k, 1) + " / " + agents], ["in contact", counted(k, 2) + " / " + agents, counted(k, 2) > 0]];
    if (followed >= 0) {
      var hits = 0;
      for (var j = 1; j <= k; j++) { hits += (flag(j, followed) & 2) > 0; }
      rows.push([data.agents[followed] + " (" + data.players[followed] + ")", (flag(k, followed) & 1 ? "on goal, " : "") + hits + " contacts"]);
    }
    return rows;
  };
  this.pick = function (px, py) {
    var now = present(), best = 24, found = -1;
    for (var a = 0; a < agents; a++) {
      var p = at(now, a), far = Math.hypot(p[0] - px, p[1] - py) - radii[a] * scale;
      if (far < best) { best = far; found = a; }
    }
    followed = found === followed ? -1 : found;
  };
  this.marks = [{ colour: model.contact, shares: steps.map(function (_, k) { return counted(k, 2) / agents; }) }];
  element("lines").checked = agents <= 40;
}
