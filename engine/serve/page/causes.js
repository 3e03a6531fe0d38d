// Texts of causes that the engine names by a code with values: why a camera gives no pictures, why something is not written, why
// there is no video, and why a request is refused. A code without a text here is shown by the English text that comes with it.

import { t } from "./texts.js";

const network = () => t("Check the power and the network of the camera.");

/** Why a camera gives no pictures: `[reason, remedy]` by code. */
const SOURCES = {
  "login-missing": () => [t("The camera asks for a user and a password"), t("Set the user and the password of the camera.")],
  "login-rejected": () => [t("The camera rejects the user or the password"), t("Check both.")],
  "login-unknown": () => [t("The camera offers a login that is not supported"), t("Choose Digest or Basic in the settings of the camera.")],
  "forbidden": () => [t("The camera refuses this user"), t("Check the permissions of the user in the settings of the camera.")],
  "certificate-expired": () => [t("The certificate of the camera has expired"), t("Renew it in the camera, and check the clocks.")],
  "certificate-changed": () => [t("The camera shows another certificate than the known one"), t("Check that it is the camera, and enter the new fingerprint then.")],
  "certificate-untrusted": () => [t("The certificate of the camera is not trusted"), t("Enter its authority or its fingerprint in the graph file.")],
  "not-encrypted": () => [t("There is no encrypted connection to the camera"), t("Check the port, and whether the camera encrypts.")],
  "host-unknown": () => [t("The host in the address is not known"), t("Check the name of the host in the address.")],
  "path-unknown": () => [t("There is no video at this path"), t("The camera is there, but not this path: check the address.")],
  "transport-unknown": () => [t("The camera does not send in this way"), t("Set the transport of the source to the other one of TCP and UDP.")],
  "viewers-full": () => [t("The camera serves no more viewers"), t("End other connections to it, or take its smaller stream.")],
  "refused": () => [t("The connection was refused"), t("Nothing answers at this address: is the camera on, and is the port right?")],
  "unreachable": () => [t("There is no way to the camera"), network()],
  "no-answer": () => [t("The camera does not answer"), network()],
  "not-opened": (values) => [t("The camera did not answer within {time}", values), network()],
  "not-closed": (values) => [t("The connection did not close within {time}", values), network()],
  "no-data": (values) => [t("No data for {time}", values), network()],
  "no-pictures": (values) => [t("The camera sends other data, such as sound, but no pictures for {time}", values), t("Restart the camera.")],
  "undecoded": (values) => [t("No picture could be decoded whole for {time}", values), t("Check the network of the camera, or restart it.")],
  "size-missing": () => [t("Its pictures cannot be decoded: their size is missing"), t("Set the camera to repeat its parameter sets (SPS, PPS) before key frames.")],
  "sends-no-pictures": () => [t("It sends no pictures"), t("Check the path of the address.")],
  "sends-no-video": () => [t("It sends no video"), t("Check the address.")],
  "connection-ended": () => [t("The connection ended"), network()],
  "file-missing": () => [t("The file is missing"), t("Check the path of the file.")],
  "file-empty": () => [t("The file is empty"), t("Record or download it again.")],
  "file-cut-off": () => [t("The file was cut off"), t("Record or download it again.")],
  "file-no-video": () => [t("The file holds no video"), t("Choose a video file.")],
  "file-not-permitted": () => [t("The file may not be read"), t("Check its permissions.")],
  "device-in-use": () => [t("The device cannot be opened"), t("Is it a camera, and not in use by another program?")],
  "no-frame": () => [t("It gave no frame"), t("Check the address.")],
};

/** Codes whose English reason has more that is needed, such as a fingerprint. */
const DETAILED = new Set(["login-unknown", "certificate-expired", "certificate-changed", "certificate-untrusted"]);

/** Texts of all other codes. */
const TEXTS = {
  // Warnings, and why an output writes nothing.
  "disk-full": (values) => (values.place ? t("The disk of {place} is full: make room, or write elsewhere.", values) : t("The disk is full: make room, or write elsewhere.")),
  "disk-read-only": (values) => t("The disk of {place} is read-only: nothing is written.", values),
  "place-not-permitted": (values) => t("{place} may not be written: check its permissions.", values),
  "server-unknown": () => t("The host of its server is not known: check the address."),
  "server-refuses": () => t("Its server refuses the connection: is it running, and is the port right?"),
  "server-silent": () => t("Its server does not answer: check the network."),
  "reserves-too-high": (values) => t("Cameras reserve {share} % of what the machine can do: lower their reserves.", values),
  // Why there is no video, as a part of a sentence.
  "view-interlaced": () => t("its video is interlaced, which browsers show with combs where something moves"),
  "view-unplayable": (values) => t("this browser does not play its video ({codec})", values),
  "view-no-key-frame": (values) => t("no key frame has come for {time}; shorten the key frame interval of the camera", values),
  "view-masked": () => t("its pictures hide what its video shows"),
  "view-private": () => t("the camera is private"),
  "archive-unreadable": () => t("its archive cannot be read: check the disk and the permissions of its folder"),
  // Refused requests.
  "token-missing": () => t("This engine needs a token."),
  "token-wrong": () => t("This token is not the one of this engine."),
  "role-too-low": (values) => t("{name} may not do this: it needs the role {role}.", values),
  "some-cameras-only": (values) => t("{name} sees some cameras only, and this concerns all of them.", values),
  "camera-not-shown": (values) => t("{name} does not see the camera {camera}.", values),
  "other-site": () => t("Pages of other sites cannot change anything here."),
  "stream-unknown": (values) => t("There is no camera {name}.", values),
  "stream-removed": () => t("The camera was removed."),
  "pictures-private": (values) => t("The pictures of {name} are private.", values),
  "no-frames": (values) => t("{name} sends no pictures now.", values),
  "outside-schedule": (values) => t("{name} is outside its schedule, and no picture came in time. Try again.", values),
  "pictures-busy": () => t("Too many clients wait for pictures. Try again."),
  "picture-late": (values) => t("No picture of {name} came in time. Try again.", values),
  "picture-empty": (values) => t("The pictures of {name} show nothing.", values),
  "incident-gone": () => t("This incident is gone, or this part of it is not there."),
  "pins-full": (values) => t("{max} incidents are pinned, which are the most: take the pin off another one.", values),
  "clips-busy": () => t("Too many clips are being played. Try again."),
  "archive-missing": (values) => t("{name} is not recorded.", values),
  "nothing-recorded": (values) => t("Nothing of {name} was recorded at that time.", values),
  "segment-gone": () => t("This part of the recording was removed."),
  "file-changed": () => t("The graph file was changed meanwhile: load it again, and make the edit in the new text."),
};

const worded = (table, cause) => (cause && Object.hasOwn(table, cause.code) ? table[cause.code](cause.values ?? {}) : null);

/** Why a camera gives no pictures, as `[reason, remedy]`; `null` without a text of the code. */
export const sourceWords = (cause) => worded(SOURCES, cause);

export const isDetailed = (cause) => DETAILED.has(cause?.code);

/** Text of a warning, of a refusal, or of the reason for which there is no video; `null` without a text of the code. */
export const causeText = (cause) => worded(TEXTS, cause);

/** Warnings of a state as sentences, those about an output with its name. */
export function warnings({ warnings: texts = [], warning_causes: causes = [] }) {
  return texts.map((text, index) => {
    const known = causeText(causes[index]);
    const { sink } = causes[index] ?? {};
    return known && sink ? t("Output {sink}: {text}", { sink, text: known }) : known ?? text;
  });
}

/** Text of why an output writes nothing; `null` without a text of its code. */
export const outputTrouble = ({ warning_causes: causes = [] }, name) => causeText(causes.find((cause) => cause?.sink === name));
