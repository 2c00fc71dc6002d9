// Package members keeps track of who is here: each replica renews its key in a
// bucket, and whoever watches judges by its own clock which keys are alive.
package members
