// Package grammar says which tokens may come next where an answer has to keep a JSON schema,
// a regular expression, a list of choices or a grammar.
//
// Compile checks what is asked, and refuses by name what cannot be kept or is too large: it
// needs no model. A Set keeps what was compiled for one vocabulary, so requests that ask the
// same share automata and masks. A Cursor is where one answer stands. It is a function of the
// answer's tokens alone, so another replica that reads these from the log makes the same one.
//
// bytewise has automata over bytes, pushdown the rules that call each other and the masks,
// jsonschema and ebnf make rules. Nothing here imports the rest of the module: a tokenizer
// asks it at intake, and attention where it samples.
package grammar
