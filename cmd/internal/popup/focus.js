// Finds an element and gives it the focus; says whether it has it.
(selector) => {
  const found = document.querySelector(selector);
  found?.focus();
  return !!found && document.activeElement === found;
}
