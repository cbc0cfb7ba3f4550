package worker

import (
	"bytes"
	"encoding/gob"
	"os"
	"path/filepath"
	"strings"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A parcel is a detached lease on its way to another worker: a file that whoever comes
// first takes.
type parcel struct {
	ID    string
	Lock  Lock
	Mode  history.Mode
	Owner string
	From  history.Operation
}

// hidden begins the names of files that nobody is to take: they are being written, or
// have been taken.
const hidden = "."

// post leaves a parcel for others. The file is there as a whole or not at all.
func (h *hand) post(p parcel) {
	var text bytes.Buffer // not JSON: names of locks may be no text
	if err := gob.NewEncoder(&text).Encode(p); err != nil {
		panic(err)
	}
	dir, name := h.cfg.Parcels, strings.ReplaceAll(h.name, "/", "-")
	if err := os.WriteFile(filepath.Join(dir, hidden+name), text.Bytes(), 0o600); err != nil {
		panic(err)
	}
	// One that nobody has taken yet is lost by this, as parcels are.
	if err := os.Rename(filepath.Join(dir, hidden+name), filepath.Join(dir, name)); err != nil {
		panic(err)
	}
}

// collect takes a parcel, rather one of another process. A copy leaves it to others, too.
func (h *hand) collect(which int, copied bool) (p parcel, ok bool) {
	files, err := os.ReadDir(h.cfg.Parcels)
	if err != nil {
		return p, false // there is no such place
	}
	var own, others []string
	for _, f := range files {
		switch name := f.Name(); {
		case strings.HasPrefix(name, hidden):
		case strings.HasPrefix(name, h.cfg.Name+"-"):
			own = append(own, name)
		default:
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		others = own
	}
	if len(others) == 0 {
		return p, false
	}
	path := filepath.Join(h.cfg.Parcels, others[which%len(others)])
	if !copied {
		taken := filepath.Join(h.cfg.Parcels, hidden+"for-"+strings.ReplaceAll(h.name, "/", "-"))
		if err := os.Rename(path, taken); err != nil {
			return p, false // somebody else was first
		}
		path = taken
	}
	text, err := os.ReadFile(path)
	return p, err == nil && gob.NewDecoder(bytes.NewReader(text)).Decode(&p) == nil
}
