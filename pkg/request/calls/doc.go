// Package calls knows how families of models write what is no text of an answer: thoughts, and
// calls of tools. A Syntax is how one model does, found by its chat template and vocabulary. Its
// Reader tells answers apart as their tokens come, and its Forms are what a grammar holds an
// answer to that has to be a call.
//
//	token ─▶ mark or text ─▶ Reader ─ family ─▶ content, thoughts, calls (a name, then pieces of arguments)
//
// Families set marks around calls. A mark that is a token of the vocabulary counts only as that
// token; others count as text, wherever pieces of it are cut. What is told does not depend on
// that. What is malformed is content: a call is told once its arguments begin, and from there on
// they are what the model wrote.
package calls
