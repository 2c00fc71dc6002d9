package calls

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// Call is a part of a call: its first one has ID and Name, and Arguments of all make its arguments.
type Call struct {
	Index               int
	ID, Name, Arguments string
}

// Said is what was told of an answer.
type Said struct {
	Content, Reasoning string
	Calls              []Call // one for each call, with what was added to it
}

// Options are what an answer is read with.
type Options struct {
	// Request is its id, of which those of calls are made.
	Request string
	// Tools says that there are any, so that calls are looked for.
	Tools bool
	// Single says that the answer ends with its first call.
	Single bool
	// Begun is what the prompt ends with that begins the answer.
	Begun string
	// Show says what of a piece of content is shown, and whether the answer ends there; nil: all
	// is. A call, or the end, comes behind a piece that is the last.
	Show func(content string, last bool) (shown string, over bool)
}

// machine follows what one family writes.
type machine interface {
	text(r *Reader, text string)
	mark(r *Reader, mark string)
	end(r *Reader)
	// reading reports whether a call is under way; json is the value of it that is, if any is.
	reading() (is bool, json *value)
}

// Reader tells an answer apart. It is not safe for concurrent use.
type Reader struct {
	syntax  *Syntax
	o       Options
	machine machine

	said  Said
	calls int    // begun
	ended int    // whole
	held  string // text that may begin a mark
	over  bool   // what was shown ends the answer

	begun    bool            // something other than white space has come
	thinking bool            // between the marks of thoughts
	quiet    bool            // nothing but white space has come since the beginning, thoughts or a call
	drop     bool            // and it is left out
	spaces   strings.Builder // white space that is held back
}

// Read begins to read an answer.
func (s *Syntax) Read(o Options) *Reader {
	r := &Reader{syntax: s, o: o, machine: s.begin(s), quiet: true}
	text := o.Begun
	for text != "" { // in the prompt marks are known by their text
		before, mark, after := cut(text, s.every())
		r.text(before)
		if mark != "" {
			r.Mark(mark)
		}
		text = after
	}
	return r
}

// every returns all marks.
func (s *Syntax) every() []string {
	if s.silent {
		return s.marks
	}
	return append([]string{thinkOpen, thinkClose}, s.marks...)
}

// cut cuts a text at the first of marks that is in it.
func cut(text string, marks []string) (before, mark, after string) {
	at := len(text)
	for _, m := range marks {
		if i := strings.Index(text[:min(len(text), at+len(m))], m); i >= 0 && i < at {
			at, mark = i, m
		}
	}
	return text[:at], mark, text[min(len(text), at+len(mark)):]
}

// MarkOf returns the mark that a token is; empty: it is text.
func (r *Reader) MarkOf(id uint32) string { return r.syntax.ids[id] }

// Text takes the next piece of the answer's text in. It goes on in pieces that end with
// quotation marks: no mark counts between two of these within a call.
func (r *Reader) Text(text string) {
	text = r.held + text
	r.held = ""
	for text != "" {
		n := r.quoted(text)
		if n == 0 {
			n = strings.IndexByte(text, '"') + 1
			if before, mark, _ := cut(text[:cmp.Or(n, len(text))], r.syntax.textual); mark != "" {
				r.text(before)
				r.found(mark)
				text = text[len(before)+len(mark):]
				continue
			}
		}
		if n == 0 {
			n = len(text) - overlap(text, r.syntax.textual)
			r.held = text[n:]
			r.text(text[:n])
			return
		}
		r.text(text[:n])
		text = text[n:]
	}
}

// quoted returns how many bytes of a text are of a string within a call.
func (r *Reader) quoted(text string) int {
	if !r.inString() {
		return 0
	}
	_, json := r.machine.reading()
	v := *json
	for i := range len(text) {
		if v.inString(text[i]); !v.text {
			return i + 1
		}
	}
	return len(text)
}

// inString reports whether what comes next is of a string within a call.
func (r *Reader) inString() bool {
	_, json := r.machine.reading()
	return !r.thinking && json != nil && json.text
}

// overlap returns how many bytes at the end of a text may begin a mark.
func overlap(text string, marks []string) (most int) {
	for _, mark := range marks {
		for n := min(len(mark)-1, len(text)); n > most; n-- {
			if strings.HasSuffix(text, mark[:n]) {
				most = n
			}
		}
	}
	return most
}

// Mark takes the next token in, which is a mark.
func (r *Reader) Mark(mark string) {
	r.flush()
	r.found(mark)
}

func (r *Reader) flush() {
	held := r.held
	r.held = ""
	r.text(held)
}

// End says that nothing more comes. The rest of a mark is not told where one had to come, nor the
// beginning of a call that marks have begun, if the answer was cut before it could be told.
func (r *Reader) End(cut bool) {
	if calling, _ := r.machine.reading(); !calling && r.calls == 0 && (!r.thinking || len(r.held) <= 1) {
		r.flush()
	}
	if calling, _ := r.machine.reading(); cut && calling && !isBare(r.machine) {
		r.show("", true)
		r.over = true
	}
	if !r.thinking {
		r.machine.end(r)
	}
	rest := ""
	if r.calls == 0 && !r.thinking { // a text may end with white space
		rest = r.spaces.String()
	}
	r.show(rest, true)
	r.spaces.Reset()
}

// Take returns what was told since it was taken last.
func (r *Reader) Take() Said {
	said := r.said
	r.said = Said{}
	return said
}

// Over says that the answer ends here: it was to have one call, or Show ended it.
func (r *Reader) Over() bool { return r.over || r.o.Single && r.ended > 0 }

// Thinking reports whether what comes next is a thought.
func (r *Reader) Thinking() bool {
	c, is := r.machine.(*channels)
	return r.thinking || is && c.in == inThoughts
}

// text takes text that is no mark.
func (r *Reader) text(text string) {
	switch {
	case text == "":
	case r.thinking:
		r.thought(text)
	default:
		r.machine.text(r, text)
	}
}

// found takes a mark: of thoughts, which come before all else, or of the family.
func (r *Reader) found(mark string) {
	switch {
	case r.inString():
		r.text(mark)
	case r.syntax.silent:
		r.machine.mark(r, mark)
	case r.thinking && mark == thinkClose:
		r.thinking = false
		r.hush(true)
	case r.thinking && mark == thinkOpen && r.quiet, !r.thinking && mark == thinkClose && !r.begun:
		r.hush(true) // the prompt ends with it, and the answer begins with it once more
	case r.thinking:
		r.thought(mark)
	case mark == thinkOpen && !r.begun:
		r.thinking, r.begun = true, true
		r.hush(true)
	case mark == thinkOpen, mark == thinkClose:
		r.machine.text(r, mark)
	case !r.o.Tools:
		r.content(mark)
	default:
		r.machine.mark(r, mark)
	}
}

// hush holds white space back from here on, or leaves it out.
func (r *Reader) hush(drop bool) {
	r.quiet, r.drop = true, drop
	r.spaces.Reset()
}

const white = " \t\r\n"

// thought adds to the thoughts, without the white space at their beginning and end.
func (r *Reader) thought(text string) {
	if r.over {
		return
	}
	if r.quiet {
		if text = strings.TrimLeft(text, white); text == "" {
			return
		}
		r.quiet = false
	}
	shown := strings.TrimRight(text, white)
	if shown != "" {
		r.said.Reasoning += r.spaces.String() + shown
		r.spaces.Reset()
	}
	r.spaces.WriteString(text[len(shown):])
}

// content adds to the text of the answer. White space behind thoughts is left out, and that at
// the beginning or behind a call comes with what stands behind it.
func (r *Reader) content(text string) {
	rest := strings.TrimLeft(text, white)
	if r.quiet && r.drop {
		text = rest
	}
	if r.quiet && rest == "" {
		r.spaces.WriteString(text)
		return
	}
	r.begun = r.begun || rest != ""
	r.show(r.spaces.String()+text, false)
	r.quiet, r.drop = false, false
	r.spaces.Reset()
}

// show adds content to what is told; nothing is told behind its end.
func (r *Reader) show(text string, last bool) {
	if r.over {
		return
	}
	if r.o.Show != nil {
		text, r.over = r.o.Show(text, last)
	}
	r.said.Content += text
}

// open begins a call.
func (r *Reader) open(name, id string) {
	if r.show("", true); r.over {
		return
	}
	if id == "" {
		id = r.id()
	}
	r.said.Calls = append(r.said.Calls, Call{Index: r.calls, ID: id, Name: name})
	r.calls++
	r.begun = true
	r.spaces.Reset()
}

// id returns the newest call's id, which is the same whenever the same answer is read. Mistral's templates take nine letters alone.
func (r *Reader) id() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", r.o.Request, r.calls+1))
	text := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15]))
	if r.syntax.name == "mistral" {
		return text[:9]
	}
	return "call_" + text
}

// arguments adds to the newest call.
func (r *Reader) arguments(text string) {
	if text == "" || r.over {
		return
	}
	n := len(r.said.Calls)
	if n == 0 || r.said.Calls[n-1].Index != r.calls-1 {
		r.said.Calls = append(r.said.Calls, Call{Index: r.calls - 1})
		n++
	}
	r.said.Calls[n-1].Arguments += text
}

// closed says that the newest call is whole.
func (r *Reader) closed() {
	r.ended++
	r.hush(false)
}
