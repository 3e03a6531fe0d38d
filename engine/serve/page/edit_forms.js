// Part Add of the view Edit: forms for a camera and an alarm, which become tables of the text.

import { discover } from "./api.js";
import { el, setText } from "./dom.js";
import { fullName } from "./edit_shapes.js";
import { literal, toFile } from "./edit_variables.js";
import { sentences, t } from "./texts.js";

/** Keys of the presets of `webhook`, beside `url`; whether they need an address. */
const PRESETS = {
  ntfy: { keys: ["topic", "token"], needs: ["topic"], url: false },
  telegram: { keys: ["token", "chat"], needs: ["token", "chat"], url: false },
  slack: { keys: [], needs: [], url: true },
  gotify: { keys: ["token"], needs: ["token"], url: true },
  discord: { keys: [], needs: [], url: true },
  "": { keys: [], needs: [], url: true },
};

/** An address with a user and a password, whose signs are coded. */
export function withLogin(address, user, password) {
  const parts = /^([a-z][a-z0-9+.-]*:\/\/)(?:[^/?#@]*@)?(.*)$/i.exec(address);
  if (!parts || (!user && !password)) return address;
  const login = [user, password].filter(Boolean).map(encodeURIComponent).join(":");
  return `${parts[1]}${login}@${parts[2]}`;
}

const field = (text, input) => el("label", {}, el("span", { text }), input);
const trimmed = (form) => Object.fromEntries([...new FormData(form)].map(([key, value]) => [key, value.trim()]));
const input = (name, attributes = {}) => el("input", { name, autocomplete: "off", maxlength: "1000", ...attributes });

/** Names that a sink may take: rules, zones and lines of cameras, and transforms. */
function sources(graph) {
  const found = Object.keys(graph.transforms ?? {});
  for (const [camera, keys] of Object.entries(graph.cameras ?? {})) {
    for (const part of ["rules", "zones", "lines", "transforms"]) {
      for (const name of Object.keys(keys?.[part] ?? {})) found.push(fullName(["cameras", camera, part, name]));
    }
  }
  return found;
}

export class FormsPane {
  constructor(host) {
    this.host = host;
    this.root = el("div", { class: "edit-forms columns" }, this.#camera(), this.#alarm());
  }

  update(graph) {
    const names = sources(graph);
    const key = names.join("\n");
    if (key === this.key) return;
    this.key = key;
    const chosen = new Set([...this.inputs.querySelectorAll(":checked")].map(({ value }) => value));
    this.inputs.replaceChildren(...names.map((name) => {
      const box = el("input", { type: "checkbox", value: name });
      box.checked = chosen.has(name);
      return el("label", { class: "check" }, box, el("span", { text: name }));
    }));
    if (!names.length) this.inputs.append(el("p", { class: "hint", text: t("There is no rule, zone or line yet: draw one first.") }));
  }

  /** Adds a table unless its name is taken, and says that it is not saved yet. */
  async #add(form, path, value) {
    const [section, name] = path;
    if (this.host.document()[section]?.[name] !== undefined) {
      this.host.app.say(t("The name {name} is taken.", { name }));
      return;
    }
    if (!await this.host.edit([{ path, value }])) return;
    form.reset();
    this.host.app.say(t("{name} is in the text. Save it to put it into force.", { name }));
  }

  #camera() {
    const submit = (event) => {
      event.preventDefault();
      const form = event.target;
      const { name, uri, user, password } = trimmed(form);
      this.#add(form, ["cameras", name], { uri: toFile(withLogin(uri, user, password)) });
    };
    this.find = el("button", { type: "button", id: "edit-find", text: t("Find cameras"), onclick: ({ target }) => this.#find(target.form) });
    this.foundNote = el("p", { class: "hint", role: "status", text: t("The network of the engine is searched; with a host as the address, that host is asked.") });
    this.found = el("ul", { class: "edit-found", "aria-label": t("Cameras that were found"), hidden: "" });
    return el("form", { class: "panel edit-form", id: "edit-camera-form", onsubmit: submit },
      el("h3", { text: t("Add a camera") }),
      field(t("Name"), input("name", { required: "", maxlength: "64" })),
      field(t("Address"), input("uri", { required: "", placeholder: "rtsp://192.0.2.7/stream" })),
      field(t("User"), input("user")),
      field(t("Password"), input("password", { type: "password", autocomplete: "new-password" })),
      this.find, this.foundNote, this.found,
      el("p", { class: "hint", text: t("The password becomes a part of the address. It is masked once it is saved.") }),
      el("div", { class: "buttons" }, el("button", { class: "primary", text: t("Put into the text") })));
  }

  /** Asks for cameras with the login of the form, and offers the addresses of their streams. */
  async #find(form) {
    const { uri, user, password } = trimmed(form);
    if (!user !== !password) {
      setText(this.foundNote, user ? t("Enter the password of the user, or remove the user.") : t("Enter the user of the password, or remove the password."));
      return;
    }
    const login = user ? { user, password } : {};
    const host = uri && !/^(?!http:)[a-z][a-z0-9+.-]*:\/\//i.test(uri) ? { address: uri } : {};
    this.find.disabled = true;
    setText(this.foundNote, t("Searching …"));
    this.found.hidden = true;
    try {
      const { devices, warnings } = await discover({ ...host, ...login });
      const items = devices.map((device) => this.#device(form, device));
      this.found.replaceChildren(...items);
      this.found.hidden = items.length === 0;
      const none = items.length ? "" : t("No camera answered. Is ONVIF switched on in the cameras, and are they on a network of the engine?");
      setText(this.foundNote, sentences(none, ...warnings));
    } catch (error) {
      setText(this.foundNote, error.message);
    } finally {
      this.find.disabled = false;
    }
  }

  /** The streams of a device as buttons that fill the form, or why there are none. */
  #device(form, { address, manufacturer, model, cameras, warnings }) {
    const title = [[manufacturer, model].filter(Boolean).join(" "), address].filter(Boolean).join(" · ");
    const choose = (name, uri) => { [form.elements.name.value, form.elements.uri.value] = [name, literal(uri)]; };
    const facts = ({ profile, codec, width, height, fps }) =>
      [profile, width && height && `${width}×${height}`, codec, fps && t("{fps} frames/s", { fps })].filter(Boolean).join(" · ");
    const buttons = cameras.flatMap(({ name, streams }) => streams.map((stream) => el("button", {
      type: "button", class: "small", text: `${name}: ${facts(stream)}`, onclick: () => choose(name, stream.uri),
    })));
    return el("li", {}, el("strong", { text: title, dir: "auto" }), ...buttons, ...warnings.map((text) => el("span", { class: "hint", text })));
  }

  #alarm() {
    const preset = el("select", { name: "preset", onchange: () => show() },
      ...Object.keys(PRESETS).map((name) => el("option", { value: name, text: name || t("Any web server") })));
    const parts = {
      url: field(t("Address"), input("url")),
      topic: field(t("Topic"), input("topic")),
      token: field(t("Token"), input("token", { placeholder: "${ALARM_TOKEN}" })),
      chat: field(t("Chat"), input("chat")),
    };
    const show = () => {
      const { keys, needs, url } = PRESETS[preset.value];
      for (const [key, label] of Object.entries(parts)) {
        label.hidden = key !== "url" && !keys.includes(key);
        label.lastChild.required = key === "url" ? url : needs.includes(key);
      }
    };
    show();
    this.inputs = el("fieldset", { class: "edit-inputs" });
    const submit = (event) => {
      event.preventDefault();
      const form = event.target;
      const data = new FormData(form);
      const inputs = [...this.inputs.querySelectorAll(":checked")].map(({ value }) => value);
      if (!inputs.length) return this.host.app.say(t("Choose what the alarm is for."));
      const keys = ["url", ...PRESETS[preset.value].keys].map((key) => [key, toFile(data.get(key).trim())]).filter(([, value]) => value);
      const kind = preset.value ? { preset: preset.value } : {};
      return this.#add(form, ["sinks", data.get("name").trim()], { type: "webhook", ...kind, inputs, ...Object.fromEntries(keys) });
    };
    return el("form", { class: "panel edit-form", id: "edit-alarm-form", onsubmit: submit },
      el("h3", { text: t("Add an alarm") }),
      field(t("Name"), input("name", { required: "", maxlength: "64" })),
      field(t("Service"), preset), ...Object.values(parts),
      el("p", { text: t("For") }), this.inputs,
      el("div", { class: "buttons" }, el("button", { class: "primary", text: t("Put into the text") })));
  }
}
