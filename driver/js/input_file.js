// The input for files that was prepared last.
function () { return globalThis.__piChromeInput && globalThis.__piChromeInput.file || null; }
