// Returns what a picture of the whole page does not show: how large the page
// is now, how many pictures were not loaded, and a box that scrolls by itself.
() => {
  const root = document.scrollingElement || document.documentElement;
  let unloaded = 0, box = null;
  const all = document.querySelectorAll('*');
  for (let i = 0; i < all.length && i < 50000; i++) {
    const e = all[i];
    if (e instanceof HTMLImageElement && !e.complete) unloaded++;
    if (e === root || e === document.body) continue;
    const hidden = e.scrollHeight - e.clientHeight;
    if (hidden <= 1 || e.clientHeight * e.clientWidth < innerWidth * innerHeight / 3) continue;
    const flow = getComputedStyle(e).overflowY;
    if ((flow === 'auto' || flow === 'scroll') && (!box || hidden > box.hidden)) {
      box = { name: e.localName + (e.id ? '#' + e.id.slice(0, 60) : ''), hidden };
    }
  }
  return { width: root.scrollWidth, height: root.scrollHeight, unloaded, box };
}
