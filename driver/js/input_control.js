// Puts the functions that fill and focus a control into this world.
function () {
  const lib = globalThis.__piChromeInput;
  const {up, contains, nearest, describe, shown, rects, refusal, pick, unseen, secret, call, active, line, frame} = lib.tools;
  const TYPED = ['text', 'email', 'url', 'tel', 'search', 'password', 'number'];
  const SET = ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'];
  const FORMAT = {number: 'a number such as 12.5', date: 'YYYY-MM-DD', time: 'HH:MM or HH:MM:SS', 'datetime-local': 'YYYY-MM-DDTHH:MM', month: 'YYYY-MM', week: 'YYYY-Www', color: '#rrggbb', range: 'a number'};
  const EDITABLE = 'input,textarea,select,[contenteditable=""],[contenteditable=true],[contenteditable=plaintext-only]';
  const YES = ['true', 'on', 'yes', '1', 'checked'], NO = ['false', 'off', 'no', '0', 'unchecked', ''];

  const usable = (el) => !(el.localName === 'input' && ['hidden', 'submit', 'button', 'reset', 'image', 'file'].includes(el.type));

  const inside = (root) => {
    const list = [];
    const walk = (n) => {
      for (const el of n.querySelectorAll('*')) {
        if (list.length > 1) return;
        if (el.matches(EDITABLE) && usable(el)) list.push(el);
        if (el.shadowRoot) walk(el.shadowRoot);
      }
    };
    if (root.shadowRoot) walk(root.shadowRoot);
    walk(root);
    return list.length === 1 ? list[0] : null;
  };

  /** The control that an element stands for: itself, its label's, its editor,
   * or the only one in it. */
  const controlOf = (el) => {
    if (el.matches('input,textarea,select')) return el;
    if (el.localName === 'label' && el.control) return el.control;
    if (el.localName === 'option') return el.closest('select');
    if (el.isContentEditable) {
      let host = el;
      for (let n = el; n && n.isContentEditable; n = n.parentElement) if (n.hasAttribute('contenteditable')) host = n;
      return host;
    }
    const role = el.getAttribute('role');
    if (role === 'checkbox' || role === 'switch' || role === 'radio') return el;
    return inside(el);
  };

  const kindOf = (el) => {
    if (el.localName === 'textarea') return 'type';
    if (el.localName === 'select') return 'select';
    if (el.localName === 'input') {
      if (TYPED.includes(el.type)) return 'type';
      if (SET.includes(el.type)) return 'set';
      if (el.type === 'checkbox' || el.type === 'radio') return 'check';
      return '';
    }
    if (el.isContentEditable) return 'edit';
    return ['checkbox', 'switch', 'radio'].includes(el.getAttribute('role')) ? 'check' : '';
  };

  const checkedOf = (el) => (el.localName === 'input' ? el.checked && !el.indeterminate : el.ariaChecked === 'true');

  const textOf = (el) => {
    if (el.localName === 'select') return [...el.selectedOptions].map((o) => o.label).join(', ');
    if (el.isContentEditable && !('value' in el)) return el.innerText.replace(/\n$/, '');
    return el.value;
  };

  const option = (select, text) => {
    const all = [...select.options];
    const trim = (s) => s.replace(/\s+/g, ' ').trim();
    for (const same of [
      (o) => o.label === text || trim(o.textContent) === trim(text) || trim(o.label) === trim(text),
      (o) => o.value === text,
      (o) => trim(o.label).toLowerCase() === trim(text).toLowerCase()]) {
      const found = all.filter(same);
      const free = found.filter((o) => !o.matches(':disabled'));
      if (free.length) return free[0];
      if (found.length) return found[0];
    }
    return null;
  };

  /** Whether a field of that kind could hold the text, asked of a field that
   * is in no page. */
  const holds = (el, text) => {
    const probe = document.createElement('input');
    probe.type = el.type;
    if (el.type === 'range') { [probe.min, probe.max, probe.step] = [el.min, el.max, 'any']; }
    probe.value = text;
    if (el.type === 'color') return /^#[0-9a-f]{6}$/i.test(text);
    if (el.type === 'range') return text.trim() !== '' && Number(probe.value) === Number(text);
    if (text === '') return true;
    return el.type === 'number' ? probe.value !== '' : probe.value.replace(/:00(\.0+)?$/, '') === text.replace(/:00(\.0+)?$/, '').replace(' ', 'T');
  };

  /** Whether what lies over a field belongs to it: a label that floats in it,
   * a placeholder, the face of an editor over its hidden field. */
  const ofField = (c, blocker) => {
    const box = c.getBoundingClientRect();
    if (box.width <= 4 || box.height <= 4) return true;
    let n = up(c);
    while (n && !contains(n, blocker)) n = up(n);
    if (!n || n.nodeType !== 1 || n === document.body || n === document.documentElement) return false;
    return n.querySelectorAll(EDITABLE).length <= 1 && n.getBoundingClientRect().height <= 1.6 * box.height + 16;
  };

  /** What covers a control, or null. What can be scrolled from under it is. */
  const coveredBy = (c) => {
    let found = pick(c, null);
    for (const block of ['nearest', 'center', 'start', 'end']) {
      if ('x' in found || !unseen(c, found)) break;
      c.scrollIntoView({block, inline: block === 'center' ? 'center' : 'nearest', behavior: 'instant'});
      found = pick(c, null);
    }
    if ('x' in found || !found.blocker || ofField(c, found.blocker)) return null;
    return {blocker: found.blocker, point: found.point};
  };

  /**
   * Finds the control and says how it is to be filled, or why it is not.
   * Nothing is changed but the scroll position.
   */
  lib.prepare = async (el, text) => {
    if (!el.isConnected) return {state: 'stale'};
    const c = controlOf(el);
    if (!c) return {state: 'not-editable', reason: 'it is not a form control', tag: el.localName};
    const kind = kindOf(c);
    const about = {tag: c.localName, type: c.localName === 'input' || c.localName === 'select' ? c.type : '', kind, secret: secret(c), called: call(c)};
    if (c !== el) about.requestedTag = el.localName;
    if (!kind) return {state: 'not-editable', reason: c.type === 'file' ? 'it takes files' : `an input of type ${c.type} takes no value`, ...about};
    const no = refusal(c);
    if (no) return {state: no, ...about};
    if (c.readOnly || (c.getAttribute('aria-readonly') === 'true')) return {state: 'not-editable', reason: 'it is read-only', ...about};
    if (kind !== 'check' && (!shown(c) || !rects(c).length)) return {state: 'invisible', reason: 'it is not rendered', ...about};
    lib.control = lib.target = c;
    if (kind === 'select') {
      const o = option(c, text);
      const allowed = [...c.options].filter((x) => !x.matches(':disabled')).slice(0, 30).map((x) => line(x.label, 60));
      if (!o) return {state: 'refused', reason: 'no option has that text or value', allowed, ...about};
      if (o.matches(':disabled')) return {state: 'refused', reason: 'that option is disabled', allowed, ...about};
    }
    if (kind === 'check') {
      const word = text.trim().toLowerCase();
      if (!YES.includes(word) && !NO.includes(word)) return {state: 'refused', reason: 'it is on or off', allowed: ['true', 'false'], ...about};
      const want = YES.includes(word), is = checkedOf(c);
      const radio = c.type === 'radio' || c.getAttribute('role') === 'radio';
      if (radio && !want && is) return {state: 'refused', reason: 'a radio button is put out by choosing another of its group', allowed: ['true'], ...about};
      return {state: 'ok', click: want !== is, want, ...about};
    }
    if ((kind === 'set' || c.type === 'number') && !holds(c, text)) {
      return {state: 'refused', reason: `it takes ${FORMAT[c.type]}` + (c.type === 'range' ? ` from ${c.min || 0} to ${c.max || 100}` : ''), allowed: [], ...about};
    }
    const box = c.getBoundingClientRect();
    if (box.bottom < 0 || box.right < 0 || box.top > innerHeight || box.left > innerWidth) c.scrollIntoView({block: 'center', inline: 'nearest', behavior: 'instant'});
    const over = coveredBy(c);
    if (over) {
      const within = nearest(over.blocker, '[id],dialog,[role=dialog]');
      return {state: 'covered', blocker: describe(over.blocker), within: within && within !== over.blocker ? describe(within) : '', x: over.point.x, y: over.point.y, ...about};
    }
    return {state: 'ok', ...about};
  };

  /**
   * Gives the control the focus, and waits until it has arrived there. With
   * caret 'all' all of its text is selected; with 'end' the caret goes to its
   * end, unless it had the focus already; with 'keep' it stays where it is.
   */
  lib.focus = async (el, caret) => {
    const c = el === globalThis ? lib.control : el;
    if (!c || !c.isConnected) return {state: 'stale'};
    lib.control = lib.target = c;
    // Its own tree is asked: the document's would name the host of a closed root.
    const inTree = () => { const a = c.getRootNode().activeElement; return !!a && (a === c || contains(c, a)); };
    const arrived = () => inTree() && document.hasFocus();
    const had = arrived();
    if (!had) c.focus({preventScroll: true});
    for (let i = 0; i < 6 && !arrived(); i++) {
      if (!inTree()) break; // something else took it at once, or it takes none
      await frame();
    }
    if (!arrived()) {
      const other = active();
      return {state: 'lost', other: other ? call(other) : '', focusable: c.tabIndex >= 0 || c.isContentEditable};
    }
    if (caret === 'end' && !had) toEnd(c);
    if (caret === 'all') {
      if (c.localName === 'input' || c.localName === 'textarea') c.select();
      else if (c.isContentEditable) {
        getSelection().selectAllChildren(c);
        await frame(); // an editor takes over a selection after the event that tells of it
      }
    }
    return {state: arrived() ? 'ok' : 'lost', empty: textOf(c) === ''};
  };

  const toEnd = (c) => {
    if (c.localName === 'input' || c.localName === 'textarea') {
      // A field of numbers has a caret that no script may move: it is at the end.
      try { c.setSelectionRange(c.value.length, c.value.length); } catch { c.select(); getSelection().collapseToEnd(); }
    } else if (c.isContentEditable) {
      getSelection().selectAllChildren(c);
      getSelection().collapseToEnd();
    }
  };

  /** What has the focus and takes text, here or in a frame within. */
  lib.typable = () => {
    const a = active();
    return {frame: !!a && (a.localName === 'iframe' || a.localName === 'frame'), text: !!a && (a.isContentEditable || TYPED.includes(a.type) && a.localName === 'input' || a.localName === 'textarea'),
      readOnly: !!a && a.readOnly === true, called: a ? call(a) : ''};
  };

  /** Sets what cannot be typed, as a choice in the browser's own picker does:
   * the value, then one input and one change. */
  lib.set = (_, text) => {
    const c = lib.control;
    if (!c || !c.isConnected) return {state: 'stale'};
    if (c.getRootNode().activeElement !== c) c.focus({preventScroll: true});
    if (c.localName === 'select') {
      const o = option(c, text);
      if (!o) return {state: 'stale'};
      if (c.multiple) for (const other of c.options) other.selected = other === o;
      else c.selectedIndex = o.index;
    } else {
      c.value = c.type === 'datetime-local' ? text.replace(' ', 'T') : text;
    }
    c.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    c.dispatchEvent(new Event('change', {bubbles: true}));
    return {state: 'ok'};
  };

  /** Reads the control back and compares it with what was wanted. */
  lib.read = (_, text) => {
    const c = lib.control;
    if (!c || !c.isConnected) return {gone: true};
    const kind = kindOf(c);
    if (kind === 'check') return {same: checkedOf(c) === YES.includes(text.trim().toLowerCase()), value: String(checkedOf(c)), length: 0};
    const value = textOf(c);
    const plain = (s) => (kind === 'edit' ? s.replace(/\u00a0/g, ' ').replace(/\s*\n\s*/g, '\n').trim() : s.replace(/\r\n?/g, '\n'));
    let same = plain(value) === plain(text);
    if (kind === 'select') same = option(c, text)?.selected === true;
    if (kind === 'set' || c.type === 'number') same = same || holds(c, text) && (Number(value) === Number(text) || value.toLowerCase() === text.toLowerCase().replace(' ', 'T') || value.replace(/:00(\.0+)?$/, '') === text.replace(/:00(\.0+)?$/, '').replace(' ', 'T'));
    if (c.localName === 'input' && kind === 'type') same = same || value === text.replace(/[\r\n]/g, '');
    const hide = secret(c);
    return {same, length: value.length, value: hide ? '' : value.slice(0, 500), cut: !hide && value.length > 500, secret: hide,
      invalid: c.willValidate && !c.validity.valid ? line(c.validationMessage, 160) : ''};
  };

  /** Whether the focus is where keys may go, and in which frame. */
  lib.focused = () => {
    const a = active();
    lib.control = null;
    lib.target = a;
    return {tag: a ? a.localName : '', frame: !!a && (a.localName === 'iframe' || a.localName === 'frame'), called: a ? call(a) : '', has: document.hasFocus()};
  };

  /** Why keys cannot go to an element, or ok. */
  lib.keyable = (el, typing) => {
    if (!el.isConnected) return {state: 'stale'};
    const c = (typing && controlOf(el)) || (el.localName === 'label' && el.control ? el.control : el);
    const about = {tag: c.localName, requestedTag: c === el ? '' : el.localName};
    const no = refusal(c);
    if (no) return {state: no, ...about};
    if (!shown(c)) return {state: 'invisible', reason: 'it is not rendered', ...about};
    if (typing && (c.readOnly === true || c.getAttribute('aria-readonly') === 'true')) return {state: 'not-editable', reason: 'it is read-only', ...about};
    lib.control = lib.target = c;
    const box = c.getBoundingClientRect();
    if (box.bottom < 0 || box.right < 0 || box.top > innerHeight || box.left > innerWidth) c.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
    const over = typing && kindOf(c) && rects(c).length ? coveredBy(c) : null;
    if (over) {
      const within = nearest(over.blocker, '[id],dialog,[role=dialog]');
      return {state: 'covered', blocker: describe(over.blocker), within: within && within !== over.blocker ? describe(within) : '', x: over.point.x, y: over.point.y, ...about};
    }
    return {state: 'ok', ...about};
  };
}
