# Web server of the nested-file-system study (FAST '12, table 3): 50 000 files of 16 KB, 100 threads, operations of 512 KB.
# The text says one append to the log for each open; Filebench's own web server appends once for ten. This one follows the text.

set $dir=/tmp
set $nfiles=50000
set $nthreads=100
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $iosize=512k
set $appendsize=16k
set $dirwidth=20
set $runtime=60

define fileset name=webserver,path=$dir,entries=$nfiles,size=$filesize,dirwidth=$dirwidth,prealloc=100,readonly,paralloc
define fileset name=weblog,path=$dir,entries=1,size=16k,dirwidth=$dirwidth,prealloc=100

define process name=webserver
{
  thread name=worker,instances=$nthreads
  {
    flowop openfile name=open,filesetname=webserver,fd=1
    flowop readwholefile name=read,fd=1,iosize=$iosize
    flowop closefile name=close,fd=1
    flowop appendfilerand name=log,filesetname=weblog,fd=2,iosize=$appendsize
  }
}

run $runtime
