package source

// Names keeps the names of headers, which are few and come again and again. It
// is for one goroutine; make one with make.
type Names map[string]string

const (
	maxNames   = 1024
	maxNameLen = 255 // longer ones are not kept, as they may be of any length
)

// Intern returns name as a string that shares no memory with it.
func (n Names) Intern(name []byte) string {
	if known, ok := n[string(name)]; ok {
		return known
	}
	made := string(name)
	if len(name) > maxNameLen {
		return made
	}
	if len(n) >= maxNames {
		clear(n)
	}
	n[made] = made
	return made
}
