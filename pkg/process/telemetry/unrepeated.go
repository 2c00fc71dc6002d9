package telemetry

import "log/slog"

// Unrepeated logs an error when it is another one than before: what is tried
// again and again would fill the log.
type Unrepeated struct{ last string }

// Error logs what failed and why, unless it did so the last time.
func (u *Unrepeated) Error(log *slog.Logger, what string, err error) {
	if err.Error() == u.last {
		return
	}
	u.last = err.Error()
	log.Error(what, "error", err)
}
