// Package contract holds the built program to what outsiders rely on: what commands take and
// print, the fields of their JSON, and how they exit. testdata/commands.json is the table.
//
//	make freeze
//
// It knows the program alone, and nothing of how it is made. What a row asks for changes with a
// version only; fields may be added.
package contract
