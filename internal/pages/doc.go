// Package pages checks the repository's documents: that links lead somewhere, and that the
// pages one reads first are short.
package pages
