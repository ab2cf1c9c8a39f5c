package intake

// Names keeps the names of headers, which are few and come again and again. It
// is for one goroutine; make one with make.
type Names map[string]string

const maxNames = 1024

// Intern returns name as a string that shares no memory with it.
func (n Names) Intern(name []byte) string {
	if known, ok := n[string(name)]; ok {
		return known
	}
	if len(n) >= maxNames {
		clear(n)
	}
	made := string(name)
	n[made] = made
	return made
}
