// Package limits tests what pipelines do at their limits: of pages of keys and values, of
// positions, of sequences at once, of the token log; and that they leave nothing behind.
package limits
