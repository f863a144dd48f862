// Puts the functions that give files to a page into this world.
function () {
  const lib = globalThis.__piChromeInput;
  const {up, nearest, shown, rects, refusal, call} = lib.tools;
  const shadowOf = (el) => el.shadowRoot || (globalThis.__piChrome ? globalThis.__piChrome.closed.get(el) : null);
  const isFile = (el) => el && el.localName === 'input' && el.type === 'file';

  const inputsIn = (root) => {
    const list = [];
    const walk = (n) => {
      for (const el of n.querySelectorAll('*')) {
        if (list.length > 1) return;
        if (isFile(el)) list.push(el);
        if (shadowOf(el)) walk(shadowOf(el));
      }
    };
    if (shadowOf(root)) walk(shadowOf(root));
    walk(root);
    return list;
  };

  const about = (input) => ({tag: 'input', called: call(input), multiple: input.multiple, directory: input.webkitdirectory === true, accept: input.accept || ''});

  /**
   * How files get to an element: it is or holds an input for files ("input"),
   * it is a control that may open a file chooser ("chooser"), or something
   * that files may be dropped on ("drop").
   */
  lib.uploadTarget = (el) => {
    if (!el.isConnected) return {state: 'stale'};
    let input = isFile(el) ? el : null;
    const label = !input && nearest(el, 'label');
    if (label && isFile(label.control)) input = label.control;
    if (!input) {
      const inside = inputsIn(el);
      if (inside.length === 1) input = inside[0];
      if (inside.length > 1) return {state: 'several'};
    }
    const requestedTag = el.localName;
    if (input) {
      const no = refusal(input);
      if (no === 'disabled') return {state: no};
      lib.file = lib.target = lib.control = input;
      return {state: 'ok', how: 'input', requestedTag: input === el ? '' : requestedTag, ...about(input)};
    }
    const no = refusal(el);
    if (no) return {state: no};
    if (!shown(el) || !rects(el).length) return {state: 'invisible', reason: 'it is not rendered'};
    const control = nearest(el, 'button,a[href],input,summary,[role=button],[role=link],[role=menuitem],select,textarea');
    return {state: 'ok', how: control ? 'chooser' : 'drop', tag: el.localName, called: call(el), multiple: true, directory: false, accept: ''};
  };

  /** Takes the input that a file chooser was opened for. */
  lib.uploadInput = (el) => {
    if (!isFile(el)) return {state: 'none'};
    lib.file = lib.target = lib.control = el;
    return {state: 'ok', how: 'input', ...about(el)};
  };

  /** Counts the events by which the input tells its page of files. */
  lib.uploadWatch = () => {
    lib.uploadStop();
    const input = lib.file;
    const seen = {input: 0, change: 0, cancel: 0, trusted: true};
    const note = (e) => { if (e.target === input || e.composedPath()[0] === input) { seen[e.type]++; seen.trusted &&= e.isTrusted; } };
    // An input that stands in no page tells only itself.
    const on = input.isConnected ? window : input;
    for (const type of ['input', 'change', 'cancel']) on.addEventListener(type, note, {capture: true, passive: true});
    const stop = () => { for (const type of ['input', 'change', 'cancel']) on.removeEventListener(type, note, {capture: true}); };
    lib.uploading = {seen, stop, parts: [], timer: setTimeout(() => lib.uploadStop(), 120000)};
    return {};
  };

  lib.uploadStop = () => {
    const u = lib.uploading;
    if (!u) return {};
    clearTimeout(u.timer);
    u.stop();
    lib.uploading = null;
    return {};
  };

  /** What the input holds, after at most limit ms for its page to be told. */
  lib.uploaded = async (_, limit) => {
    const u = lib.uploading, input = lib.file;
    if (!u || !input) return {missed: true};
    const end = performance.now() + limit;
    while (!u.seen.change && !u.seen.cancel && performance.now() < end) await new Promise((done) => setTimeout(done, 10));
    return {connected: input.isConnected, events: u.seen, count: input.files.length,
      files: [...input.files].slice(0, 32).map((f) => ({name: f.name, size: f.size, type: f.type, path: f.webkitRelativePath || ''}))};
  };

  /** Takes one piece of one file, in base64. */
  lib.uploadPart = (_, index, file, base64) => {
    const u = lib.uploading || (lib.uploading = {seen: {}, stop: () => {}, parts: [], timer: setTimeout(() => lib.uploadStop(), 120000)});
    u.parts[index] ||= {file, chunks: []};
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    u.parts[index].chunks.push(bytes);
    return {};
  };

  const transfer = () => {
    const data = new DataTransfer();
    for (const p of lib.uploading.parts) data.items.add(new File(p.chunks, p.file.name, {type: p.file.type, lastModified: p.file.modified}));
    lib.uploading.parts = [];
    return data;
  };

  /** Gives the input the files whose pieces have come. */
  lib.uploadSet = () => {
    const input = lib.file;
    if (!lib.uploading || !input) return {state: 'stale'};
    input.files = transfer().files;
    return {state: 'ok'};
  };

  /** Tells the input's page once that it holds other files. */
  lib.uploadTell = () => {
    const input = lib.file;
    if (!lib.uploading || !input) return {state: 'stale'};
    input.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    input.dispatchEvent(new Event('change', {bubbles: true}));
    return {state: 'ok'};
  };

  /** Drops the files whose pieces have come on an element, with events that
   * the page can tell from those of a person. */
  lib.uploadDrop = async (el, x, y) => {
    if (!el.isConnected || !lib.uploading) return {state: 'stale'};
    const data = transfer();
    let hit = el.getRootNode().elementFromPoint(x, y);
    let n = hit;
    while (n && n !== el) n = up(n);
    if (!n) hit = el;
    const send = (type) => {
      const e = new DragEvent(type, {bubbles: true, cancelable: true, composed: true, clientX: x, clientY: y, dataTransfer: data});
      hit.dispatchEvent(e);
      return e.defaultPrevented;
    };
    send('dragenter');
    await lib.frame();
    const accepted = send('dragover');
    if (accepted) send('drop');
    else send('dragleave');
    return {state: 'ok', accepted};
  };

  /** Watches whether files that are dropped are taken. */
  lib.dropWatch = () => {
    lib.uploadStop();
    const seen = {accepted: false, dropped: false, files: 0};
    const over = (e) => { seen.accepted ||= e.defaultPrevented; };
    const drop = (e) => { seen.dropped = true; seen.files = e.dataTransfer ? e.dataTransfer.files.length : 0; };
    addEventListener('dragover', over, {passive: true});
    addEventListener('drop', drop, {capture: true, passive: true});
    const stop = () => { removeEventListener('dragover', over); removeEventListener('drop', drop, {capture: true}); };
    lib.uploading = {seen, stop, parts: [], timer: setTimeout(() => lib.uploadStop(), 120000)};
    return {};
  };

  lib.dropSeen = () => (lib.uploading ? lib.uploading.seen : {missed: true});
}
