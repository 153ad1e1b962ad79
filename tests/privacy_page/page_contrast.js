// The contrast of every visible text with what stands behind it, as WCAG defines it: [ratio, text].
() => {
  const numbers = (color) => color.match(/[\d.]+/g).map(Number);
  const over = (top, under) => {
    const alpha = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => top[i] * alpha + under[i] * (1 - alpha));
  };
  const light = (color) => {
    const [r, g, b] = color.map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    if (!node) return [255, 255, 255];
    return over(numbers(getComputedStyle(node).backgroundColor), behind(node.parentElement));
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const texts = [...node.childNodes].filter((each) => each.nodeType === 3 && each.textContent.trim());
    if (!texts.length || node.closest("script, noscript, [hidden]") || !node.getClientRects().length) continue;
    const style = getComputedStyle(node), drawn = node instanceof SVGElement;
    const ground = behind(drawn ? node.closest("div") : node);
    const [a, b] = [light(over(numbers(drawn ? style.fill : style.color), ground)), light(ground)];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), texts[0].textContent.trim().slice(0, 40)]);
  }
  return found;
}
