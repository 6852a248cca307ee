package planner

import "gantry/planner/unit"

// files is the table of all files, in pages. A page of files whose workflows have all ended is packed, as of tasks.
type files struct {
	pages [][]placed
	left  []int32 // by page: files whose workflows have not ended
	past  table[FileID, pastFile]
	n     int
	more  map[FileID][]NodeID // copies beyond the homes of a file
}

// placed is a file with its home: the first node that has it; None: nowhere yet; everywhere.
type placed struct {
	File
	home NodeID
}

// pastFile is a placed file without its further homes.
type pastFile struct {
	producer TaskID
	size     unit.Bytes
	home     NodeID
}

// everywhere is the home of a file that is on all nodes.
const everywhere NodeID = -2

func (x *files) len() int { return x.n }

// push takes in a new file.
func (x *files) push(f File) {
	home := NodeID(None)
	if len(f.Homes) > 0 {
		home = f.Homes[0]
	} else if f.Producer == None {
		home = everywhere
	}
	if x.n&(pageSize-1) == 0 {
		x.pages, x.left = append(x.pages, make([]placed, 0, pageSize)), append(x.left, 0)
		x.past.pages = append(x.past.pages, nil)
	}
	k := x.n >> pageBits
	x.pages[k] = append(x.pages[k], placed{f, home})
	x.left[k]++
	x.n++
}

// of returns a file, which must exist. A file of a workflow that has not ended stays where it is.
func (x *files) of(f FileID) *placed {
	if page := x.pages[f>>pageBits]; page != nil {
		return &page[f&(pageSize-1)]
	}
	p := x.past.at(f)
	return &placed{File{ID: f, Producer: p.producer, Size: p.size}, p.home}
}

// end drops the parts of a file that nobody asks for any more once its workflow has ended.
func (x *files) end(f FileID) {
	delete(x.more, f)
	k := int(f >> pageBits)
	page := x.pages[k]
	page[f&(pageSize-1)].Homes = nil
	if x.left[k]--; x.left[k] > 0 || len(page) < pageSize {
		return
	}
	past := new([pageSize]pastFile)
	for i := range page {
		past[i] = pastFile{page[i].Producer, page[i].Size, page[i].home}
	}
	x.past.pages[k], x.pages[k] = past, nil
	x.past.pack(k)
}
