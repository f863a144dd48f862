// Puts the functions that tell what an input changed into this world: armed
// before the input, read when the page has come to rest.
function () {
  const lib = globalThis.__piChromeInput;
  const {up, nearest, describe, frame, shown, CONTROL} = lib.tools;
  const MAX_CONTROLS = 1000, MAX_NODES = 40, MAX_NOTES = 12, MAX_ELEMENTS = 4000, MAX_GONE = 200, MAX_ROOTS = 500, ROOTS_MS = 8;
  const SECRET = /password|passwd|pwd|secret|token|bearer|api.?key|access.?key|auth.?code|one.?time|otp|2fa|mfa|verification.?code|recovery.?code|credit.?card|card.?number|cc-number|cc-csc|\bcvc\b|\bcvv\b|security.?code|\bssn\b|social.?security/i;
  const STATES = ['aria-expanded', 'aria-checked', 'aria-pressed', 'aria-selected', 'aria-invalid', 'aria-current', 'open', 'disabled', 'hidden'];

  const line = (s, max) => {
    const t = String(s || '').replace(/\s+/g, ' ').trim();
    return t.length > max ? t.slice(0, max - 1) + '…' : t;
  };

  const labelText = (el) => el.ariaLabel || (el.labels && el.labels[0] && [...el.labels[0].childNodes].filter((n) => !n.contains(el)).map((n) => n.textContent).join(' ').trim()) ||
    el.getAttribute('placeholder') || el.getAttribute('title') || el.getAttribute('alt') || '';

  const secret = (el) => el.type === 'password' ||
    SECRET.test(['name', 'id', 'autocomplete', 'data-testid'].map((a) => el.getAttribute(a) || '').concat(labelText(el)).join(' '));

  /** Kind and name of a thing in a receipt: ['checkbox', 'Box']. */
  const parts = (el) => {
    const kind = el.getAttribute('role') || (el.localName === 'input' ? el.type : el.localName);
    const field = el.matches('input,textarea,select') || el.isContentEditable;
    const name = line(labelText(el) || (field ? '' : el.textContent), 60);
    return name ? [kind, name] : [describe(el), ''];
  };

  /** The same in one: checkbox "Box". */
  const call = (el) => {
    if (!el || el.nodeType !== 1) return '';
    const [kind, name] = parts(el);
    return name ? `${kind} ${JSON.stringify(name)}` : kind;
  };

  /** The number that a walk gave the element, by which its ref is known. */
  const num = (el) => (el && globalThis.__piChrome ? el[globalThis.__piChrome.num] || 0 : 0);

  const shadowOf = (el) => el.shadowRoot || (globalThis.__piChrome ? globalThis.__piChrome.closed.get(el) : null);

  /** Every element that can be seen, through the shadow roots that are known,
   * or null where the page is too large to look at all of it. */
  const seen = () => {
    // Chrome keeps this count; it spares a large page the look at its first part.
    if (document.getElementsByTagName('*').length > MAX_ELEMENTS) return null;
    const set = new Set();
    let count = 0;
    const walk = (root) => {
      for (const el of root.querySelectorAll('*')) {
        if (++count > MAX_ELEMENTS) return false;
        if (el.checkVisibility({visibilityProperty: true})) set.add(el);
        const inner = shadowOf(el);
        if (inner && !walk(inner)) return false;
      }
      return true;
    };
    return walk(document) ? set : null;
  };

  /** The document and the shadow roots in it that are known, those around the
   * target first. What takes too long to find in a large page is left out. */
  const rootsOf = (target) => {
    const roots = new Set([document]), end = performance.now() + ROOTS_MS;
    for (let n = target; n; n = up(n)) if (n.parentNode instanceof ShadowRoot) roots.add(n.parentNode);
    let count = 0;
    for (const root of roots) { // it goes on with those that are added
      const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT);
      for (let el = walker.nextNode(); el; el = walker.nextNode()) {
        const inner = shadowOf(el);
        if (inner && roots.size < MAX_ROOTS) roots.add(inner);
        if (roots.size >= MAX_ROOTS || ((++count & 255) === 0 && performance.now() > end)) return [...roots];
      }
    }
    return [...roots];
  };

  const active = () => {
    let el = document.activeElement;
    while (el && el.shadowRoot && el.shadowRoot.activeElement) el = el.shadowRoot.activeElement;
    return el && el !== document.body && el !== document.documentElement ? el : null;
  };

  const stateOf = (el) => {
    if (el.localName === 'input' && (el.type === 'checkbox' || el.type === 'radio')) return {checked: el.indeterminate ? 'mixed' : String(el.checked)};
    if (el.localName === 'select') return {value: [...el.selectedOptions].map((o) => o.label).join(', ')};
    return {value: el.value};
  };

  const fields = (roots) => {
    const list = new Map();
    for (const el of [lib.target, lib.control]) if (el && el.isConnected && el.matches('input,textarea,select')) list.set(el, stateOf(el));
    for (const root of roots) {
      for (const el of root.querySelectorAll('input:not([type=hidden]):not([type=button]):not([type=submit]),textarea,select')) {
        if (list.size >= MAX_CONTROLS) return list;
        if (!list.has(el)) list.set(el, stateOf(el));
      }
    }
    return list;
  };

  /** Starts to listen, in the document and in its shadow roots: what a press
   * changes often stands in another component than what was pressed. */
  lib.arm = () => {
    lib.disarm();
    const roots = rootsOf(lib.target);
    const scrolled = new Map();
    const onScroll = (event) => { if (scrolled.size < 20) scrolled.set(event.target, true); };
    const a = lib.armed = {
      roots, scrolled, count: 0, shape: 0, added: new Set(), removed: new Set(), attributes: new Map(), old: new Map(),
      url: location.href, title: document.title, focus: active(), x: scrollX, y: scrollY, fields: fields(roots), seen: seen(),
    };
    a.observer = new MutationObserver((list) => take(list));
    for (const root of roots) {
      a.observer.observe(root, {subtree: true, childList: true, attributes: true, attributeOldValue: true, characterData: true, characterDataOldValue: true});
      root.addEventListener('scroll', onScroll, {capture: true, passive: true});
    }
    const onClick = () => { a.clicked = true; };
    addEventListener('click', onClick, {capture: true, passive: true});
    a.stop = () => {
      a.observer.disconnect();
      removeEventListener('click', onClick, {capture: true});
      for (const root of roots) root.removeEventListener('scroll', onScroll, {capture: true});
    };
    // Nobody may come to ask: a watch left on costs the page.
    a.timer = setTimeout(() => { if (lib.armed === a) lib.disarm(); }, 30000);
    return {};
  };

  lib.disarm = () => {
    const a = lib.armed;
    if (!a) return;
    clearTimeout(a.timer);
    a.stop();
    lib.armed = null;
  };

  const take = (list) => {
    const a = lib.armed;
    if (!a) return;
    for (const m of list) {
      if (document.head && document.head.contains(m.target)) continue; // a title or a style sheet is no content
      a.count++;
      // What a text said before, so that only what was added to it is told.
      const was = m.type === 'characterData' ? m.oldValue : m.removedNodes.length === 1 && m.removedNodes[0].nodeType === 3 ? m.removedNodes[0].data : null;
      const where = m.type === 'characterData' ? m.target.parentNode : m.target;
      if (was && a.old.size < MAX_NODES && !a.old.has(where)) a.old.set(where, was);
      if (m.type === 'characterData' && a.added.size < MAX_NODES) a.added.add(m.target);
      for (const n of m.addedNodes || []) if (a.added.size < MAX_NODES) a.added.add(n);
      for (const n of m.removedNodes || []) if (a.removed.size < MAX_NODES) a.removed.add(n);
      if (m.type === 'attributes') a.shape++;
      if (m.type === 'attributes' && STATES.includes(m.attributeName)) {
        const key = m.target;
        if (!a.attributes.has(key)) { if (a.attributes.size >= MAX_CONTROLS) continue; a.attributes.set(key, new Map()); }
        const seen = a.attributes.get(key);
        if (!seen.has(m.attributeName)) seen.set(m.attributeName, m.oldValue);
      }
    }
  };

  const DIALOG = 'dialog,[role=dialog],[role=alertdialog]';

  const things = (nodes, want) => {
    const out = [];
    for (const n of nodes) {
      if (n.nodeType !== 1) continue;
      for (const el of [n, ...n.querySelectorAll(CONTROL)]) {
        if (out.length > MAX_GONE) return out;
        if (el.matches(CONTROL) && want(el) && !out.includes(el)) out.push(el);
      }
    }
    return out;
  };

  const dialogName = (el) => {
    const by = (el.getAttribute('aria-labelledby') || '').split(/\s+/).map((id) => id && el.getRootNode().getElementById(id)).filter(Boolean).map((n) => n.textContent).join(' ');
    const heading = el.querySelector('h1,h2,h3,h4,[role=heading]');
    return line(by || el.ariaLabel || (heading && heading.textContent) || el.innerText, 80);
  };

  const told = (el) => { const [role, name] = parts(el); return {num: num(el), role, name}; };

  /** What appeared and vanished since arm. Of a small page every element is
   * compared, whatever made it come or go; of a large one only what was put in
   * or taken out. */
  const difference = (a, added, gone) => {
    const now = a.seen && seen();
    if (!now) {
      const fresh = things(added, (el) => shown(el)), lost = things(gone, (el) => !el.isConnected);
      // An attribute may have made anything appear: nobody compared.
      return {large: true, fresh: added.length + a.shape, appeared: fresh.slice(0, MAX_NOTES).map(told), vanished: lost.slice(0, MAX_GONE).map(told),
        dialogs: added.filter((n) => n.nodeType === 1 && n.matches(DIALOG)).slice(0, 3).map(dialogName)};
    }
    const fresh = [], lost = [], dialogs = [];
    for (const el of now) if (!a.seen.has(el)) fresh.push(el);
    for (const el of a.seen) if (!now.has(el) && lost.length <= MAX_GONE && (num(el) || el.matches(CONTROL))) lost.push(el);
    for (const el of fresh) if (dialogs.length < 3 && el.matches(DIALOG)) dialogs.push(dialogName(el));
    return {large: false, fresh: fresh.length, appeared: fresh.filter((el) => el.matches(CONTROL)).slice(0, MAX_GONE).map(told),
      vanished: lost.map((el) => ({...told(el), control: el.matches(CONTROL)})), dialogs};
  };

  /** Which rows of a walk could not be seen when the watch began. */
  lib.fresh = (_, walk, rows) => {
    const S = globalThis.__piChrome, a = lib.reported;
    lib.reported = null;
    if (!S || S.walk !== walk || !a || !a.seen) return {rows: []};
    return {rows: rows.filter((i) => S.rows[i] && !a.seen.has(S.rows[i]))};
  };

  const report = (busy, waited) => {
    const a = lib.armed;
    take(a.observer.takeRecords());
    const notes = [];
    let more = 0; // notes beyond those that are told
    for (const [el, before] of a.fields) {
      if (!el.isConnected) continue;
      const after = stateOf(el);
      for (const what of Object.keys(after)) {
        if (after[what] === before[what]) continue;
        if (notes.length >= MAX_NOTES) { more++; continue; }
        const hide = what === 'value' && secret(el);
        notes.push({what, of: call(el), num: num(el), self: el === lib.target || el === lib.control,
          before: hide ? `(${before[what].length} characters)` : line(before[what], 80),
          after: hide ? `(${after[what].length} characters)` : line(after[what], 80)});
      }
    }
    for (const [el, seen] of a.attributes) {
      for (const [name, old] of seen) {
        const now = el.getAttribute(name);
        if (now === old || !el.isConnected) continue;
        if (notes.length >= MAX_NOTES) { more++; continue; }
        const flag = (v) => (name.startsWith('aria-') ? v ?? 'none' : v === null ? 'false' : 'true');
        notes.push({what: name.replace('aria-', ''), of: call(el), num: num(el), self: el === lib.target, before: flag(old), after: flag(now)});
      }
    }
    const added = [...a.added].filter((n) => n.isConnected && (n.nodeType === 3 || (n.nodeType === 1 && shown(n))));
    const text = [];
    for (const n of added) {
      if (text.length >= 3) break;
      if (n.nodeType === 1 && n.matches('script,style,link,meta')) continue;
      const was = a.old.get(n.parentNode) || '';
      const t = line(n.nodeType !== 3 ? n.innerText : n.data.startsWith(was) ? n.data.slice(was.length) : n.data, 120);
      if (t && !text.some((other) => other.includes(t))) text.push(t);
    }
    const gone = [...a.removed].filter((n) => !n.isConnected);
    const focus = active();
    const out = {
      url: location.href, urlBefore: a.url, title: document.title, titleBefore: a.title,
      token: globalThis.__piChrome ? globalThis.__piChrome.token : '',
      focus: focus ? call(focus) : '', focusNum: num(focus), focusChanged: focus !== a.focus,
      scrollX, scrollY, scrollChanged: scrollX !== a.x || scrollY !== a.y || a.scrolled.size > 0, scrolledPage: scrollX !== a.x || scrollY !== a.y,
      mutations: a.count, notes, more, text,
      ...difference(a, added, gone),
      busy, waited,
    };
    lib.disarm();
    // For lib.fresh, which may not come: elements are not to be held for ever.
    lib.reported = a;
    setTimeout(() => { if (lib.reported === a) lib.reported = null; }, 5000);
    return out;
  };

  /**
   * Waits until so many frames in a row have brought nothing new, at most
   * limit ms, and tells what has changed since arm.
   */
  lib.settle = async (_, limit, frames, click) => {
    const a = lib.armed;
    if (!a) return {missed: true};
    const start = performance.now();
    while (click && !a.clicked && performance.now() - start < click) {
      await frame();
      if (lib.armed !== a) return {missed: true};
    }
    const sign = () => {
      take(a.observer.takeRecords());
      return [a.count, location.href, scrollX, scrollY, a.scrolled.size, document.title].join('|');
    };
    let last = sign(), busy = false;
    for (let quiet = 0; quiet < frames;) {
      await frame();
      if (lib.armed !== a) return {missed: true};
      const now = sign();
      quiet = now === last ? quiet + 1 : 0;
      last = now;
      if (performance.now() - start > limit) { busy = quiet < frames; break; }
    }
    return report(busy, Math.round(performance.now() - start));
  };

  Object.assign(lib.tools, {secret, call, active, line, labelText, num});
}
