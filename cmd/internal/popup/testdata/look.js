// What is wrong with how the popup looks: what is too wide or cut off, and text that is hard to
// read. One line a fault.
() => {
  const faults = [];
  if (document.documentElement.scrollWidth > 360) faults.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  const rgb = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (color) => {
    const [r, g, b] = rgb(color).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (!/, 0\)$|transparent/.test(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const text = words.currentNode.textContent.trim();
    const holder = words.currentNode.parentElement;
    if (!text || !holder.checkVisibility() || holder.closest(".spoken, :disabled, script, style")) continue;
    const box = holder.getBoundingClientRect();
    if (box.left < 0 || box.right > 361) faults.push(`"${text}" goes from ${box.left} to ${box.right} px`);
    const [one, two] = [luminance(getComputedStyle(holder).color), luminance(ground(holder))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (two + 0.05);
    if (contrast < 4.5) faults.push(`"${text}" has a contrast of ${contrast.toFixed(2)}`);
  }
  for (const button of document.querySelectorAll("button")) {
    if (button.checkVisibility() && !button.classList.contains("clip") && button.scrollWidth > button.clientWidth) faults.push(`the button "${button.textContent}" is cut off`);
  }
  return faults.join("\n");
}
