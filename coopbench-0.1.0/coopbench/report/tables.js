(function () {
  "use strict";
  function key(row, column) {
    var cell = row.cells[column];
    return cell.hasAttribute("data-value") ? cell.getAttribute("data-value") : null;
  }
  function order(column, numeric, sign) {
    return function (one, two) {
      var a = key(one, column), b = key(two, column);
      if (a === null || b === null) { return (a === null) - (b === null); }
      return sign * (numeric ? a - b : a.localeCompare(b));
    };
  }
  function sort(table, head, column) {
    var states = ["ascending", "descending", "none"];
    var next = states[(states.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
    table.querySelectorAll("thead th").forEach(function (th) { th.setAttribute("aria-sort", "none"); });
    head.setAttribute("aria-sort", next);
    Array.prototype.forEach.call(table.tBodies, function (body) {
      body.original = body.original || Array.prototype.slice.call(body.querySelectorAll("tr:not(.group)"));
      var rows = body.original.slice();
      if (next !== "none") {
        rows.sort(order(column, head.classList.contains("num"), next === "ascending" ? 1 : -1));
      }
      rows.forEach(function (row) { body.appendChild(row); });
    });
  }
  document.querySelectorAll("table").forEach(function (table) {
    table.querySelectorAll("thead th").forEach(function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.textContent = "";
      head.appendChild(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", function () { sort(table, head, column); });
    });
  });
})();
