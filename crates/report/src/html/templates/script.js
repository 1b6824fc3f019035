"use strict";
// A cell that is linked to opens; a page that is printed shows all cells.
function openLinked() {
  var name = location.hash.slice(1);
  var target = name && document.getElementById(name);
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  }
}
addEventListener("hashchange", openLinked);
addEventListener("click", function (event) {
  var link = event.target.closest && event.target.closest("a[href^='#']");
  if (link && link.hash === location.hash) openLinked();
});
addEventListener("beforeprint", function () {
  document.querySelectorAll("details.cell").forEach(function (cell) { cell.open = true; });
});
// Tables are sorted by a button in the heading of each column: numbers by what stands in data-by, the unknown last.
function sortKey(row, column) {
  var cell = row.cells[column];
  var by = cell.getAttribute("data-by");
  var text = by === null ? cell.textContent.trim() : by;
  var number = text === "" ? NaN : Number(text.replace(/[\u00a0\u202f ]/g, "").replace("\u2212", "-"));
  return { text: text, number: number };
}
function sortTable(table, heading) {
  var down = heading.getAttribute("aria-sort") === "ascending";
  var column = [].indexOf.call(heading.parentNode.cells, heading);
  var body = table.tBodies[0];
  var rows = [].map.call(body.rows, function (row, place) { return { row: row, place: place, key: sortKey(row, column) }; });
  var numeric = rows.every(function (r) { return r.key.text === "" || !isNaN(r.key.number); });
  rows.sort(function (a, b) {
    if (!a.key.text !== !b.key.text) return a.key.text ? -1 : 1;
    var order = numeric ? a.key.number - b.key.number : a.key.text.localeCompare(b.key.text, "en", { numeric: true });
    return (down ? -order : order) || a.place - b.place;
  });
  rows.forEach(function (r) { body.appendChild(r.row); });
  [].forEach.call(heading.parentNode.cells, function (cell) { cell.removeAttribute("aria-sort"); });
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
}
document.querySelectorAll("table.sortable").forEach(function (table) {
  [].forEach.call(table.tHead.rows[0].cells, function (heading) {
    var button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    while (heading.firstChild) button.appendChild(heading.firstChild);
    heading.appendChild(button);
    button.addEventListener("click", function () { sortTable(table, heading); });
  });
});
// Filters show the rows that hold every word.
document.querySelectorAll("input[data-filters]").forEach(function (input) {
  var table = document.getElementById(input.getAttribute("data-filters"));
  var place = input.closest(".filter");
  var status = place.querySelector("[role=status]");
  place.hidden = false;
  input.addEventListener("input", function () {
    var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0;
    [].forEach.call(table.tBodies[0].rows, function (row) {
      var text = row.textContent.toLowerCase();
      row.hidden = !words.every(function (word) { return text.indexOf(word) >= 0; });
      if (!row.hidden) shown += 1;
    });
    status.textContent = words.length ? shown + " of " + table.tBodies[0].rows.length : "";
  });
});
openLinked();
