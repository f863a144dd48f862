// A password manager: while a password field has the focus, a frame of this
// extension stands over what comes after the field.

let panel = null;

const show = () => {
  panel ??= Object.assign(document.createElement("iframe"), { src: chrome.runtime.getURL("panel.html"), title: "Passwords" });
  panel.style.cssText = "position: absolute; left: 0; top: 90px; width: 300px; height: 120px; border: 0; z-index: 9";
  document.body.append(panel);
};

const hide = () => panel?.remove();

document.addEventListener("focusin", ({ target }) => { if (target.type === "password") show(); });
document.addEventListener("focusout", ({ target }) => { if (target.type === "password") hide(); });
