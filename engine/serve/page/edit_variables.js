// Dollar signs in texts of forms. In the graph file `$$` is a dollar sign and `${NAME}` a variable. In a form a variable is written
// alike, `$${NAME}` is that text, and every other dollar sign is one.

/** A variable without its dollar sign. */
const VARIABLE = String.raw`\{[A-Za-z_]\w*(?::-[^}]*)?\}`;
/** Dollar signs that are doubled in the file, or are there already; and variables, whose defaults are taken as they are. */
const SIGNS = new RegExp(String.raw`\$\$(?=${VARIABLE})|(\$${VARIABLE})|\$`, "g");
const DOUBLED = new RegExp(String.raw`(\$${VARIABLE})|\$\$(?!${VARIABLE})`, "g");
const VARIABLES = new RegExp(String.raw`\$(?=${VARIABLE})`, "g");

/** The text of a form as the graph file has it. */
export const toFile = (text) => text.replace(SIGNS, (_, variable) => variable ?? "$$");

/** A text of the graph file as a form has it. */
export const fromFile = (text) => text.replace(DOUBLED, (_, variable) => variable ?? "$");

/** A text of others, such as the address of a camera that was found, as a form has it: no part of it is a variable. */
export const literal = (text) => text.replace(VARIABLES, () => "$$");
