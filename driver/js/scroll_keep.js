// Remembers which boxes of the document are scrolled, and how far; called with
// true it puts back those that have moved since. Chrome shrinks the viewport to
// one pixel for an instant when it pictures what lies beyond it, and a page
// that is laid out by the viewport's height is then scrolled to its end.
(restore) => {
  const root = document.scrollingElement;
  if (!restore) {
    const kept = root ? [[root, root.scrollLeft, root.scrollTop]] : [];
    const all = document.querySelectorAll('*');
    for (let i = 0; i < all.length && i < 50000; i++) {
      const e = all[i];
      if (e !== root && (e.scrollTop !== 0 || e.scrollLeft !== 0)) kept.push([e, e.scrollLeft, e.scrollTop]);
    }
    globalThis.__piChromeScroll = kept;
    return kept.length;
  }
  let moved = 0;
  for (const [e, left, top] of globalThis.__piChromeScroll || []) {
    if (!e.isConnected || (e.scrollLeft === left && e.scrollTop === top)) continue;
    e.scrollTo({ left, top, behavior: 'instant' });
    moved++;
  }
  delete globalThis.__piChromeScroll;
  return moved;
}
