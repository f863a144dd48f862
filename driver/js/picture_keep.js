// Prepares the document for pictures of what lies beyond the viewport; called
// with true it puts back what they have changed.
//
// Chrome shrinks the viewport to one pixel for an instant, and a page that is
// laid out by the viewport's height is then scrolled to its end: it is
// remembered which boxes are scrolled, and how far.
//
// Chrome pictures the page without scroll bars, and does not lay it out again
// afterwards: a sheet of styles takes the bars away before, so that the page
// can be measured as it will be pictured, and its removal brings them back. No
// observer of mutations sees it.
(restore) => {
  const kept = globalThis.__piChromePicture;
  let moved = 0;
  if (kept) {
    delete globalThis.__piChromePicture;
    const at = document.adoptedStyleSheets.indexOf(kept.sheet);
    if (at >= 0) document.adoptedStyleSheets.splice(at, 1);
    for (const [e, left, top] of kept.scrolled) {
      if (!e.isConnected || (e.scrollLeft === left && e.scrollTop === top)) continue;
      e.scrollTo({ left, top, behavior: 'instant' });
      moved++;
    }
  }
  if (restore) return moved;
  const root = document.scrollingElement;
  const scrolled = root ? [[root, root.scrollLeft, root.scrollTop]] : [];
  const all = document.querySelectorAll('*');
  for (let i = 0; i < all.length && i < 50000; i++) {
    const e = all[i];
    if (e !== root && (e.scrollTop !== 0 || e.scrollLeft !== 0)) scrolled.push([e, e.scrollLeft, e.scrollTop]);
  }
  const sheet = new CSSStyleSheet();
  sheet.replaceSync('* { scrollbar-width: none !important }');
  document.adoptedStyleSheets.push(sheet);
  globalThis.__piChromePicture = { scrolled, sheet };
  return scrolled.length;
}
