// Returns the size of the viewport in CSS px, scroll bars included, and how
// many device pixels one CSS pixel is.
() => ({ width: innerWidth, height: innerHeight, dpr: devicePixelRatio })
