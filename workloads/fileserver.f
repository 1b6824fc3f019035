# File server of the nested-file-system study (Le, Huang, Wang, FAST '12, table 3): 50 000 files of 128 KB, 50 threads, operations
# of 16 KB to 1 MB. What the table leaves open is Filebench's own: a tree of about 20 entries in each directory, sizes
# with a gamma distribution, four of five files there from the beginning, 60 s.
#
# Each thread makes a file and writes it, appends to another, reads a third, removes one and looks at one.

set $dir=/tmp
set $nfiles=50000
set $nthreads=50
set $filesize=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)
set $iosize=1m
set $appendsize=16k
set $dirwidth=20
set $runtime=60

define fileset name=fileserver,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$dirwidth,prealloc=80,paralloc

define process name=fileserver
{
  thread name=client,instances=$nthreads
  {
    flowop createfile name=create,filesetname=fileserver,fd=1
    flowop writewholefile name=write,fd=1,srcfd=1,iosize=$iosize
    flowop closefile name=close-written,fd=1
    flowop openfile name=open-to-append,filesetname=fileserver,fd=1
    flowop appendfilerand name=append,fd=1,iosize=$appendsize
    flowop closefile name=close-appended,fd=1
    flowop openfile name=open-to-read,filesetname=fileserver,fd=1
    flowop readwholefile name=read,fd=1,iosize=$iosize
    flowop closefile name=close-read,fd=1
    flowop deletefile name=delete,filesetname=fileserver
    flowop statfile name=stat,filesetname=fileserver
  }
}

run $runtime
