// Package pages checks the documents: that links, tests, files and folders they name are there, and that the
// pages one reads first are short.
package pages
