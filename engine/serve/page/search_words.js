// Words and addresses of results of the search.

import { incidentPictureAddress, trackPictureAddress } from "./api.js";
import { t } from "./texts.js";

/** Least likeness (cosine) of pictures that usually show the same object, and of those that nearly always do. */
const ALIKE = 0.6;
const VERY_ALIKE = 0.75;

/** Address of the best picture of a track, or of an incident: `STREAM/TRACK` or `STREAM/RULE/NUMBER`. */
export const pictureOf = (id) => (id.split("/").length > 2 ? incidentPictureAddress(id) : trackPictureAddress(id));

/** Address within the page that asks for what looks like a track or the track of an incident. */
export const likeAddress = (id) => `#search?${new URLSearchParams({ like: id })}`;

/** Address within the page of a recording at a time. */
export const recordingAddress = (camera, ms) => `#recordings?${new URLSearchParams({ camera, at: new Date(ms).toISOString() })}`;

/** Class, plates and names of a result. */
export const title = ({ class: name, attributes }) => [name, ...Object.values(attributes)].filter(Boolean).join(" · ");

/** Words on how well a result fits, and the share of a bar where it has one: `{ text, share }`. */
export function match({ by, similarity }, isLike, best) {
  if (by === "words") return { text: t("The words match") };
  if (similarity === null || similarity === undefined) return { text: "" };
  // Likeness of words and pictures has no scale of its own: results are compared with the best one.
  if (!isLike) return { text: t("The picture fits"), share: best > 0 ? Math.max(0, similarity / best) : 0 };
  const text = similarity >= VERY_ALIKE ? t("Looks very alike") : similarity >= ALIKE ? t("Looks alike") : t("Looks less alike");
  return { text, share: Math.max(0, similarity) };
}
