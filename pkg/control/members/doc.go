// Package members keeps track of live replicas: each renews its key in a bucket, and
// each watcher judges by its own clock which keys are alive.
package members
