# Creating files, as in the study of virtualised NAS (Hildebrand and others, WIOV '11, §3.1, table 1, figure 4): 100 000 empty files are made and
# closed, in a tree whose directories have $dirwidth entries in the mean: 20 gives about 5100 directories, four
# levels deep; 1 000 000 puts all into one. The directories are made before, so they are no part of what is measured.

set $dir=/tmp
set $nfiles=100000
set $dirwidth=20
set $nthreads=1

set mode quit firstdone

define fileset name=tree,path=$dir,entries=$nfiles,size=0,dirwidth=$dirwidth,dirgamma=0

define process name=creator
{
  thread name=creator,instances=$nthreads
  {
    flowop createfile name=create,filesetname=tree,fd=1
    flowop closefile name=close,fd=1
  }
}

run
