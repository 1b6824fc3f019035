"use strict";
// A cell that is linked to opens; a page that is printed shows all cells.
function openLinked() {
  var name = location.hash.slice(1);
  var target = name && document.getElementById(name);
  if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", openLinked);
addEventListener("click", function (event) {
  var link = event.target.closest && event.target.closest("a[href^='#']");
  if (link && link.hash === location.hash) openLinked();
});
addEventListener("beforeprint", function () {
  document.querySelectorAll("details.cell").forEach(function (cell) { cell.open = true; });
});
openLinked();
