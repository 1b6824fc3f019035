// What axe leaves to a human: of colours behind which there is a gradient, a picture or another element, the contrast is computed here, with each
// colour that may lie behind the letters. The result names what is below the least contrast (WCAG 2.2, 1.4.3), and all other rules.
(found => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const painted = colours => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const contrast = (ground, ink) => {
    const [a, b] = [light(painted(ground)), light(painted([...ground, ink]))].sort((a, b) => b - a);
    return (a + 0.05) / (b + 0.05);
  };
  const isOpaque = colour => painted([colour])[3] === 255;
  // The shapes of a drawing that were painted below the middle of a text, the lowest first.
  const shapesBelow = text => {
    const box = text.getBoundingClientRect();
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const all = [...text.ownerSVGElement.querySelectorAll('rect, path, circle, polygon')];
    return all.filter(shape => {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) return false;
      const around = shape.getBoundingClientRect();
      return around.left <= x && x <= around.right && around.top <= y && y <= around.bottom;
    }).map(shape => getComputedStyle(shape)).filter(style => style.fill !== 'none' && !style.fill.startsWith('url'))
      .map(style => `color-mix(in srgb, ${style.fill} ${100 * style.fillOpacity * style.opacity}%, transparent)`);
  };
  // Every pile of colours that may lie behind an element, each from the page up.
  const grounds = element => {
    const above = [];
    const stripes = [];
    if (element.ownerSVGElement) above.unshift(...shapesBelow(element));
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== 'none') stripes.push(...(style.backgroundImage.match(/(rgba?|color)\([^)]*\)/g) || []));
      above.unshift(style.backgroundColor);
      if (isOpaque(style.backgroundColor)) break;
    }
    return [above, ...stripes.map(stripe => [...above, stripe])];
  };
  const least = style => {
    const size = parseFloat(style.fontSize);
    return size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
  };
  const broken = [];
  let looked = 0;
  for (const rule of found.incomplete) {
    for (const node of rule.nodes) {
      const element = rule.id === 'color-contrast' && document.querySelector(node.target[0]);
      if (!element) {
        broken.push([rule.id, node.html.slice(0, 120)]);
        continue;
      }
      looked += 1;
      const style = getComputedStyle(element);
      const ink = element.ownerSVGElement ? style.fill : style.color;
      const worst = Math.min(...grounds(element).map(ground => contrast(ground, ink)));
      if (!(worst >= least(style))) broken.push([worst.toFixed(2), node.html.slice(0, 120)]);
    }
  }
  return JSON.stringify({ looked: looked > 0, broken });
})
