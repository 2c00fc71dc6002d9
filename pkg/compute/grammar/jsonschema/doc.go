// Package jsonschema makes rules of a JSON schema, whose texts are the documents that it
// allows: with an object's properties in the schema's order, further ones after them, and
// white space between JSON's tokens unless it is to be compact.
//
// A schema first loses its references and conjunctions (flatten.go, combine.go): what is left
// says of one value which types it may have, and what holds for each. Alternatives become
// ways through a rule, and each subschema is a rule of its own, so schemas may refer to
// themselves.
//
// What a schema asks and rules cannot keep is refused by name (seldom.go has what is kept in
// part). What is no keyword of JSON Schema, or says nothing, changes nothing, as in a validator.
package jsonschema
