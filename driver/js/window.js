// The window of this document.
function () {
  return this.defaultView;
}
