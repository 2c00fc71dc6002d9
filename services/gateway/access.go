package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// accessLine is what the access log has of a request: nothing of what was said.
type accessLine struct {
	Time   time.Time `json:"time"`
	ID     string    `json:"id,omitempty"`
	Tenant string    `json:"tenant,omitempty"`
	Class  string    `json:"class,omitempty"`
	Key    string    `json:"key,omitempty"`
	Route  string    `json:"route,omitempty"`
	Model  string    `json:"model,omitempty"`
	Status int       `json:"status"`
	Code   string    `json:"code,omitempty"`
	Finish string    `json:"finish_reason,omitempty"`

	Prompt     int32   `json:"prompt_tokens"`
	Cached     int32   `json:"cached_tokens"`
	Completion int32   `json:"completion_tokens"`
	Queue      float64 `json:"queue"` // in seconds, as the others
	First      float64 `json:"ttft"`
	Total      float64 `json:"total"`
}

// count adds what the last chunk of an answer says.
func (l *accessLine) count(c *pb.Chunk) {
	u := c.GetUsage()
	l.Finish = c.FinishReason
	l.Prompt, l.Cached, l.Completion = l.Prompt+u.GetPromptTokens(), l.Cached+u.GetCachedTokens(), l.Completion+u.GetCompletionTokens()
	l.Queue = max(l.Queue, c.GetTimings().GetQueue())
}

// lineOf is the line of a request's answer. What is written to another writer has none.
func lineOf(w http.ResponseWriter) *accessLine {
	if a, is := w.(*answering); is {
		return &a.line
	}
	return &accessLine{}
}

// accessLog is a file of lines. One that was moved away is opened anew.
type accessLog struct {
	path string // empty: there is no log
	log  *slog.Logger

	mu     sync.Mutex
	file   io.WriteCloser
	info   os.FileInfo // of the file that is open; nil: it is no file with a name
	looked time.Time
	ended  bool
	lost   int // lines that could not be written since the last one that could
}

// stdoutLog is the path of an access log that goes where results do.
const stdoutLog = "-"

// open opens the file.
func (l *accessLog) open() error {
	if l.path == "" || l.path == stdoutLog {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reopen()
}

func (l *accessLog) reopen() error {
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("opening --http-access-log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("opening --http-access-log: %w", err), file.Close())
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.file, l.info = file, info
	return err
}

// movedEvery is how often it is looked whether the file has its name still.
const movedEvery = time.Second

// follow opens the file anew that was moved away, as programs do that rotate logs.
func (l *accessLog) follow(now time.Time) error {
	if l.path == stdoutLog || l.file != nil && now.Sub(l.looked) < movedEvery {
		return nil
	}
	l.looked = now
	if at, err := os.Stat(l.path); l.file != nil && err == nil && os.SameFile(at, l.info) {
		return nil
	}
	return l.reopen()
}

// write adds a line. A log that cannot be written loses lines, which is told once, and no request fails by it.
func (l *accessLog) write(line *accessLine) {
	if l.path == "" {
		return
	}
	text, err := json.Marshal(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	err = errors.Join(err, l.follow(time.Now()))
	if err == nil {
		to := l.file
		if l.path == stdoutLog {
			to = os.Stdout
		}
		_, err = to.Write(append(text, '\n'))
	}
	switch {
	case err != nil:
		if l.lost++; l.lost == 1 {
			l.log.Error("the access log cannot be written; requests go on without", "path", l.path, "error", err)
		}
	case l.lost > 0:
		l.log.Warn("the access log is written again", "path", l.path, "lines_lost", l.lost)
		l.lost = 0
	}
}

// close ends the log.
func (l *accessLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended = true; l.file == nil {
		return nil
	}
	return l.file.Close()
}

// seconds are a time's, as far as logs tell them.
func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// limitHeaders tell a client what its tenant may have, as its API does.
func (a *answering) limitHeaders(now time.Time) {
	for kind, of := range a.allowed.ByName() {
		if of.Most == 0 {
			continue
		}
		most, left := strconv.FormatInt(of.Most, 10), strconv.FormatInt(of.Left, 10)
		h, reset := a.Header(), of.Reset.Round(time.Millisecond)
		if a.anthropic {
			h.Set("Anthropic-Ratelimit-"+kind+"-Limit", most)
			h.Set("Anthropic-Ratelimit-"+kind+"-Remaining", left)
			h.Set("Anthropic-Ratelimit-"+kind+"-Reset", now.Add(reset).UTC().Format(time.RFC3339))
			continue
		}
		h.Set("X-Ratelimit-Limit-"+kind, most)
		h.Set("X-Ratelimit-Remaining-"+kind, left)
		h.Set("X-Ratelimit-Reset-"+kind, reset.String())
	}
}
