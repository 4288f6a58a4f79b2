// Numbers of all agents: panels of bars and tables, side by side or, where that is narrow, stacked.
function Scene(model) {
  var agents = data.agents.length, many = agents > 12, narrow = 640, edge = 12, between = 24, above = 30, below = 38;
  var names = data.agents.map(function (name) { return name.replace(/_/g, " "); });
  var columns = 1, side = 0, high = 0, label = 0, top = 0, widest = 0;
  var panels = model.panels.map(function (panel) {
    var read = { title: panel.title, end: panel.end, colour: panel.colour, words: panel.words };
    ["shares", "ticks", "values"].forEach(function (name) {
      if (panel[name]) { read[name] = unpacked(panel[name], Float32Array); }
    });
    return read;
  });

  function font(context, pixels, weight) { context.font = (weight || 400) + " " + pixels + "px system-ui, sans-serif"; }

  function write(context, words, x, y, align, ink) {
    context.fillStyle = ink;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillText(words, x, y);
  }

  // Facts as lines that are no wider than the drawing.
  function lines(context, k) {
    var rows = [];
    font(context, 14);
    model.facts[k].forEach(function (facts) {
      var row = "";
      facts.forEach(function (fact) {
        var longer = row ? row + "    " + fact : fact;
        if (row && context.measureText(longer).width > widest) { rows.push(row); longer = fact; }
        row = longer;
      });
      rows.push(row);
    });
    return rows;
  }

  // Left and upper corner of a panel, without its title and the names beside it.
  function corner(n) {
    return [edge + label + n % columns * (label + side + between), top + above + Math.floor(n / columns) * (above + high + below)];
  }

  function mixed(colour, share) {
    var parts = [1, 3, 5].map(function (k) { return parseInt(colour.slice(k, k + 2), 16); });
    return "rgb(" + parts.map(function (part, k) {
      return Math.round([245, 248, 250][k] + (part - [245, 248, 250][k]) * Math.min(1, Math.max(0, share)));
    }).join(",") + ")";
  }

  function name(context, a, x, y) {
    if (many) { return; }
    font(context, 12, a === followed ? 700 : 400);
    write(context, names[a], x - 8, y, "right", a === followed ? INK : "#57606a");
  }

  function bars(context, panel, k, x, y) {
    var room = high / agents, thick = Math.min(0.62 * room, 34);
    for (var a = 0; a < agents; a++) {
      var middle = y + (a + 0.5) * room, share = panel.shares[k * agents + a], tick = panel.ticks[k * agents + a];
      context.fillStyle = "#e4e4e4";
      context.fillRect(x, middle - 0.5 * thick, side, thick);
      context.fillStyle = share >= tick ? model.enough : model.short;
      context.fillRect(x, middle - 0.5 * thick, side * Math.min(1, Math.max(0, share)), thick);
      context.fillStyle = INK;
      context.fillRect(x + side * tick - 1, middle - 0.5 * thick - 3, 2, thick + 6);
      name(context, a, x, middle);
      if (!many && room > thick + 18) {
        font(context, 11);
        write(context, panel.words[k][a], x, middle + 0.5 * thick + 9, "left", "#57606a");
      }
    }
    font(context, 11);
    write(context, "0", x, y + high + 12, "center", "#57606a");
    write(context, panel.end, x + side, y + high + 12, "right", "#57606a");
  }

  function table(context, panel, k, x, y) {
    var cell = side / agents, gap = many ? 0 : 1;  // a table is a square
    for (var a = 0; a < agents; a++) {
      name(context, a, x, y + (a + 0.5) * cell);
      for (var b = 0; b < agents; b++) {
        var value = panel.values[(k * agents + a) * agents + b];
        context.fillStyle = a === b ? "#e4e4e4" : mixed(panel.colour, value);
        context.fillRect(x + b * cell + gap, y + a * cell + gap, cell - 2 * gap, cell - 2 * gap);
        if (a !== b && !many && cell > 26) {
          font(context, Math.min(16, 0.34 * cell));
          write(context, value.toFixed(2), x + (b + 0.5) * cell, y + (a + 0.5) * cell, "center", value > 0.55 ? PAPER : INK);
        }
      }
    }
    font(context, 11);
    for (var c = 0; c < agents && !many; c++) {
      var whole = context.measureText(names[c]).width < cell - 4;
      write(context, whole ? names[c] : String(c), x + (c + 0.5) * cell, y + high + 12, "center", "#57606a");
    }
  }

  this.smooth = false;
  this.least = 0;
  this.most = 1100;
  this.marks = [];
  this.frame = function () {
    var context = canvas.getContext("2d"), width = Math.min(this.most, canvas.parentNode.clientWidth);
    widest = width - 2 * edge;
    columns = width < narrow ? 1 : panels.length;
    font(context, 12, 700);
    label = many ? 0 : 12 + Math.max.apply(null, names.map(function (one) { return context.measureText(one).width; }));
    side = Math.min(320, (widest - columns * label - (columns - 1) * between) / columns);
    high = panels.some(function (panel) { return panel.values; }) ? side : Math.min(320, Math.max(56 * agents, 110));
    top = 8 + 20 * Math.max.apply(null, steps.map(function (_, k) { return lines(context, k).length; }));
    this.least = width;
    this.aspect = (top + Math.ceil(panels.length / columns) * (above + high + below)) / width;
  };
  this.resize = function () {};
  this.paint = function (context, now) {
    context.fillStyle = PAPER;
    context.fillRect(0, 0, canvas.width, canvas.height);
    lines(context, now.k).forEach(function (line, n) { write(context, line, edge, 20 * n + 18, "left", INK); });
    panels.forEach(function (panel, n) {
      var place = corner(n);
      font(context, 12, 600);
      write(context, panel.title, place[0] - label, place[1] - 15, "left", INK);
      (panel.values ? table : bars)(context, panel, now.k, place[0], place[1]);
    });
  };
  this.facts = function () {
    return followed < 0 ? [] : [["followed", names[followed] + " (" + data.players[followed] + ")"]];
  };
  this.pick = function (px, py) {
    var row = -1;
    panels.forEach(function (_, n) {
      var place = corner(n), a = Math.floor((py - place[1]) / high * agents);
      if (a >= 0 && a < agents && px >= place[0] - label && px <= place[0] + side) { row = a; }
    });
    followed = row === followed ? -1 : row;
  };
}
