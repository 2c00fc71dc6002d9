// Package admission decides whether a request may wait: by what tenants may have,
// by how fast waiting requests get done, and by what was promised to those that
// were turned away. It is pure: time is a number of seconds that the caller passes.
package admission
