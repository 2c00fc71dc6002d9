// Package admission decides whether a request may wait: by what tenants may have,
// by how fast waiting requests get done, and by what was promised to those that
// were turned away. It decides, too, who of those that wait begins next, and who
// of those that have begun has rows in a step: by one account of what each had.
// It is pure: time is a number of seconds that the caller passes.
package admission
