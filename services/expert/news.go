package expert

import "log/slog"

// news logs an error when it is another one than before: what is tried again
// and again would fill the log.
type news struct{ last string }

func (n *news) error(log *slog.Logger, what string, err error) {
	if err.Error() == n.last {
		return
	}
	n.last = err.Error()
	log.Error(what, "error", err)
}
