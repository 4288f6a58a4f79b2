// Trains on rails, and below the time line a row for each: its timetable, and how it kept to it.
function Scene(model) {
  var trains = data.agents.length, columns = model.size[0], lines = model.size[1];
  var positions = unpacked(model.positions, Uint16Array), headings = unpacked(model.headings, Uint8Array);
  var flags = unpacked(model.flags, Uint8Array), targets = unpacked(model.targets, Uint16Array);
  var rails = unpacked(model.rails, Uint16Array), turns = [[-1, 0], [0, 1], [1, 0], [0, -1]];
  var background = document.createElement("canvas"), drawnAt = 0, scale = 1, size = [0, 0];
  var high = 14, table = element("rows"), names = 34, words = 92, ends = [0, 0];
  var late = "#b34700", box = sides();

  // First column and row of what is drawn, and how many: all rails and a margin.
  function sides() {
    var first = [columns, lines], last = [0, 0];
    rails.forEach(function (code, k) {
      [k % columns, Math.floor(k / columns)].forEach(function (place, axis) {
        if (code) {
          first[axis] = Math.min(first[axis], Math.max(0, place - 1));
          last[axis] = Math.max(last[axis], Math.min(model.size[axis], place + 2));
        }
      });
    });
    return { left: first[0], upper: first[1], columns: last[0] - first[0], lines: last[1] - first[1] };
  }

  function x(tick) { return (model.low[1] + tick / 65535 * model.span[1] - box.left) * scale; }
  function y(tick) { return (model.low[0] + tick / 65535 * model.span[0] - box.upper) * scale; }
  function flag(k, a, bit) { return (flags[k * trains + a] & bit) > 0; }
  function colour(a) { return model.colours[a % model.colours.length]; }
  function next(k) { return Math.min(k + 1, steps.length - 1); }
  function arrived(a, step) { return model.arrivals[a] >= 0 && model.arrivals[a] <= step; }

  function at(now, a) {
    var i = 2 * (now.k * trains + a), j = 2 * (next(now.k) * trains + a);
    var part = flag(next(now.k), a, 1) || arrived(a, steps[next(now.k)]) ? now.part : 0;
    return [
      x(positions[i + 1] + (positions[j + 1] - positions[i + 1]) * part),
      y(positions[i] + (positions[j] - positions[i]) * part),
    ];
  }

  function target(a) { return [x(targets[2 * a + 1]), y(targets[2 * a])]; }

  // A track for every way through a cell, from the middle of one side to that of another.
  function tracks(context, row, column, code) {
    var middle = [(column - box.left + 0.5) * scale, (row - box.upper + 0.5) * scale];
    function edge(turn) {
      return [middle[0] + 0.5 * turns[turn][1] * scale, middle[1] + 0.5 * turns[turn][0] * scale];
    }
    for (var heading = 0; heading < 4; heading++) {
      for (var turn = 0; turn < 4; turn++) {
        if (!((code >> (15 - 4 * heading - turn)) & 1)) { continue; }
        var from = edge((heading + 2) % 4), to = (heading + 2) % 4 === turn ? middle : edge(turn);
        context.moveTo(from[0], from[1]);
        context.quadraticCurveTo(middle[0], middle[1], to[0], to[1]);
      }
    }
  }

  function paintBackground() {
    drawnAt = scale;
    var context = prepared(background, size[0], size[1]);
    context.fillStyle = FLOOR;
    context.fillRect(0, 0, size[0], size[1]);
    [["#dcdcdc", 0.36], ["#777777", 0.1]].forEach(function (style) {
      context.strokeStyle = style[0];
      context.lineWidth = Math.max(0.8, style[1] * scale);
      context.beginPath();
      rails.forEach(function (code, k) { if (code) { tracks(context, Math.floor(k / columns), k % columns, code); } });
      context.stroke();
    });
  }

  // Of trains with the same target, one ring within the other.
  function rings(context, step) {
    var drawn = {};
    context.lineWidth = Math.max(1.4, 0.1 * scale);
    for (var a = 0; a < trains; a++) {
      var place = target(a), key = place.join(), inside = drawn[key] || 0;
      if (arrived(a, step) || inside > 2) { continue; }
      drawn[key] = inside + 1;
      context.strokeStyle = colour(a);
      disc(context, place[0], place[1], Math.max(2, (0.48 - 0.14 * inside) * scale));
      context.stroke();
    }
  }

  function line(context, a, place) {
    var goal = target(a);
    context.strokeStyle = colour(a);
    context.globalAlpha = 0.5;
    context.lineWidth = a === followed ? 2 : 1.2;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(place[0], place[1]);
    context.lineTo(goal[0], goal[1]);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  function train(context, now, a, place) {
    var reach = Math.max(3.2, 0.42 * scale), heading = headings[now.k * trains + a];
    if (flag(now.k, a, 2)) {
      context.strokeStyle = model.broken;
      context.lineWidth = Math.max(2, 0.14 * scale);
      disc(context, place[0], place[1], 1.45 * reach);
      context.stroke();
    }
    if (flag(now.k, a, 4)) {
      context.strokeStyle = INK;
      context.lineWidth = 1.6;
      context.strokeRect(place[0] - 1.3 * reach, place[1] - 1.3 * reach, 2.6 * reach, 2.6 * reach);
    }
    context.save();
    context.translate(place[0], place[1]);
    context.rotate(heading * Math.PI / 2);
    context.beginPath();
    context.moveTo(0, -1.1 * reach);
    [[0.62, -0.35], [0.62, 0.9], [-0.62, 0.9], [-0.62, -0.35]].forEach(function (corner) {
      context.lineTo(corner[0] * reach, corner[1] * reach);
    });
    context.closePath();
    context.fillStyle = colour(a);
    context.strokeStyle = INK;
    context.lineWidth = a === followed ? 2.5 : 1;
    context.lineJoin = "round";
    context.fill();
    context.stroke();
    context.restore();
    if (reach >= 7) {
      context.fillStyle = PAPER;
      context.font = "600 " + Math.min(0.95 * reach, 13) + "px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(a, place[0], place[1] + 0.5);
    }
  }

  function counted(k, bit) {
    var count = 0;
    for (var a = 0; a < trains; a++) { count += flag(k, a, bit); }
    return count;
  }

  function home(step) {
    return model.arrivals.filter(function (_, a) { return arrived(a, step); }).length;
  }

  // Steps behind the timetable: of a train that has not arrived, so far.
  function delay(a, step) { return Math.max(0, (arrived(a, step) ? model.arrivals[a] : step) - model.due[a]); }

  function punctuality(a, step) {
    var behind = delay(a, step);
    if (arrived(a, step)) { return behind ? behind + " late" : "on time"; }
    if (step === total) { return "not arrived"; }
    if (behind) { return behind + " behind"; }
    return step < model.departures[a] ? "from " + model.departures[a] : "due " + model.due[a];
  }

  function across(step) { return names + (ends[0] - names - words) * step / total; }

  function paintRow(context, a, step) {
    var top = a * high, begin = model.entered[a], end = model.arrivals[a] < 0 ? total : model.arrivals[a];
    if (a === followed) {
      context.fillStyle = "#e8eef4";
      context.fillRect(0, top, ends[0], high);
    }
    function bar(from, to, upper, tall, fill) {
      context.fillStyle = fill;
      context.fillRect(across(from), top + upper, Math.max(1, across(to) - across(from)), tall);
    }
    bar(model.departures[a], Math.min(total, model.due[a]), 2, 10, "#e3e8ed");
    if (begin >= 0) { bar(begin, end, 4, 6, colour(a)); }
    model.failures.forEach(function (failure) {
      if (failure[0] === a) { bar(failure[1], failure[2], 2, 10, model.broken); }
    });
    if (model.due[a] < end) { bar(model.due[a], end, 11, 2, INK); }
    if (model.arrivals[a] >= 0) {
      context.fillStyle = INK;
      disc(context, across(end), top + 7, 3.2);
      context.fill();
    }
    context.fillStyle = "#57606a";
    context.fillText(a, 2, top + 7.5);
    context.fillStyle = delay(a, step) ? late : "#57606a";
    context.fillText(punctuality(a, step), ends[0] - words + 10, top + 7.5);
  }

  function paintTable(step) {
    var context = prepared(table, ends[0], ends[1]);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (var a = 0; a < trains; a++) { paintRow(context, a, step); }
    context.fillStyle = INK;
    context.fillRect(across(head) - 0.5, 0, 1, ends[1]);
  }

  this.smooth = true;
  this.aspect = box.lines / box.columns;
  this.least = 0;
  this.most = Infinity;
  this.below = Math.min(220, trains * high + 20);
  this.resize = function (width, height) {
    size = [width, height];
    scale = width / box.columns;
    table.style.height = trains * high + "px";
    ends = [table.clientWidth, trains * high];
  };
  this.paint = function (context, now) {
    if (drawnAt !== scale) { paintBackground(); }
    context.drawImage(background, 0, 0, size[0], size[1]);
    rings(context, steps[now.k]);
    for (var a = 0; a < trains; a++) {
      if (flag(now.k, a, 1)) {
        var place = at(now, a);
        if (element("lines").checked || a === followed) { line(context, a, place); }
        train(context, now, a, place);
      }
    }
    paintTable(steps[now.k]);
  };
  this.facts = function (k) {
    var step = steps[k], broken = counted(k, 2), stuck = counted(k, 4), behind = 0;
    for (var a = 0; a < trains; a++) { behind += !arrived(a, step) && delay(a, step) > 0; }
    var rows = [
      ["trains on the map", counted(k, 1) + " / " + trains], ["trains arrived", home(step) + " / " + trains],
      ["broken now", broken + " / " + trains, broken > 0], ["behind the timetable", behind + " / " + trains, behind > 0],
      ["deadlocked now", stuck + " / " + trains, stuck > 0],
    ];
    if (followed >= 0) { rows.push([data.agents[followed] + " (" + data.players[followed] + ")", punctuality(followed, step)]); }
    return rows;
  };
  this.pick = function (px, py) {
    var now = present(), best = 20, nearest = -1;
    for (var a = 0; a < trains; a++) {
      var p = at(now, a), far = Math.hypot(p[0] - px, p[1] - py);
      if (flag(now.k, a, 1) && far < best) { best = far; nearest = a; }
    }
    followed = nearest === followed ? -1 : nearest;
  };
  table.addEventListener("click", function (event) {
    var row = Math.floor(event.offsetY / high);
    followed = row === followed || row >= trains ? -1 : row;
    paint();
  });
  this.marks = [
    { colour: model.arrived, width: 2, shares: steps.map(function (step, k) { return k ? home(step) - home(steps[k - 1]) : 0; }) },
    { colour: model.broken, lasting: true, shares: steps.map(function (_, k) { return counted(k, 2); }) },
  ];
}
