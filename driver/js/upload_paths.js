/**
 * Gives the files of a directory that an input holds the paths that a page
 * reads of them. It runs in the page's own world: a path that another world
 * adds is not seen there.
 * @this {HTMLInputElement}
 * @param {string[]} paths
 */
function (paths) {
  const files = this.files || [];
  for (let i = 0; i < files.length; i++) Object.defineProperty(files[i], 'webkitRelativePath', {value: paths[i], enumerable: true, configurable: true});
  return {};
}
