// Chromium may leave the first words as they were drawn before it has read the font for Chinese characters
// (tools/docs_font.py). They are drawn anew when the style of text changes.
addEventListener("load", async () => {
  await document.fonts.load('1em "Noto Sans CJK SC"', "\u4e00");
  requestAnimationFrame(() => setTimeout(() => document.body.style.setProperty("font-variant-ligatures", "common-ligatures")));
});
