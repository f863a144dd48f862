// Puts the functions that watch a drag into this world: whether the page began
// one of its own, and where it ended.
function () {
  const lib = globalThis.__piChromeInput;
  const {contains} = lib.tools;

  /**
   * Starts to watch in this frame. el is the target of the drag, or the global
   * object where that is elsewhere or a point.
   */
  lib.dragWatch = (el) => {
    lib.dragStop();
    const target = el === globalThis ? null : el;
    const seen = {started: false, prevented: false, over: false, accepted: false, dropped: false, ended: false, effect: '', released: false, onTarget: false, moved: false};
    const onTarget = (e) => {
      if (!target) return true;
      const path = e.composedPath();
      if (path.includes(target)) return true;
      // A captured pointer tells its own element, whatever lies under it.
      return document.elementsFromPoint(e.clientX, e.clientY).some((hit) => contains(target, hit) || contains(hit, target) && hit.localName !== 'body' && hit.localName !== 'html');
    };
    const first = { // before the page hears of it
      dragenter: (e) => { seen.over = onTarget(e); },
      drop: (e) => { seen.dropped = true; seen.onTarget = onTarget(e); },
      dragend: (e) => { seen.ended = true; seen.effect = e.dataTransfer ? e.dataTransfer.dropEffect : ''; },
      mousemove: (e) => { if (e.buttons & 1) seen.moved = true; },
      pointerup: (e) => { seen.released = true; seen.onTarget = onTarget(e); },
      mouseup: () => { seen.released = true; },
    };
    const last = { // after the page has heard of it
      dragstart: (e) => { seen.started = !e.defaultPrevented; seen.prevented = e.defaultPrevented; },
      dragover: (e) => { seen.accepted = e.defaultPrevented; },
    };
    for (const [type, fn] of Object.entries(first)) addEventListener(type, fn, {capture: true, passive: true});
    for (const [type, fn] of Object.entries(last)) addEventListener(type, fn, {passive: true});
    const stop = () => {
      for (const [type, fn] of Object.entries(first)) removeEventListener(type, fn, {capture: true});
      for (const [type, fn] of Object.entries(last)) removeEventListener(type, fn);
    };
    lib.dragging = {seen, stop, timer: setTimeout(() => lib.dragStop(), 30000)};
    return {};
  };

  lib.dragStop = () => {
    if (!lib.dragging) return;
    clearTimeout(lib.dragging.timer);
    lib.dragging.stop();
    lib.dragging = null;
  };

  /** What has been seen since dragWatch. */
  lib.dragSeen = () => (lib.dragging ? lib.dragging.seen : {missed: true});
}
