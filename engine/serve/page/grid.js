// Arrangement of pictures: as large as they fit, on pages where they are many.

/** Narrowest picture; where that does not fit, the view scrolls. */
const MIN_WIDTH = 260;
/** Pictures of a page if none are chosen: as many as play at a time. */
const MAX_AUTOMATIC = 16;
const ASPECT = 16 / 9;

/** Choices of pictures per page; 0: automatic. */
export const SIZES = [0, 1, 4, 9, 16];

/** Pictures per page. */
export const perPage = (size) => size || MAX_AUTOMATIC;

/**
 * Columns of `count` tiles in `width` by `height` pixels with the largest pictures, and the height of a row. The height is `null` if
 * the tiles do not fit: then they have the height of their picture, and the view scrolls. `head` is the height of a tile beside its
 * picture, `gap` the space between two tiles.
 */
export function arrange(count, width, height, head, gap) {
  let best = { columns: 1, row: null, picture: 0 };
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const [wide, row] = [(width - gap * (columns - 1)) / columns, (height - gap * (rows - 1)) / rows];
    const picture = Math.min(wide, (row - head) * ASPECT);
    if (picture > best.picture + 1) best = { columns, row, picture };
  }
  const narrowest = Math.min(MIN_WIDTH, width);
  if (best.picture >= narrowest * 0.98) return best;
  return { columns: Math.max(1, Math.floor((width + gap) / (narrowest + gap))), row: null };
}
