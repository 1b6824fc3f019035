# Random read of the study of virtualised NAS (WIOV '11, §3.2, table 3): 20 threads read 2 GB in all, 2 KB or 128 KB at once, from a file of 4 GB.

set $dir=/tmp
set $filesize=4g
set $bytes=2g
set $iosize=2k
set $nthreads=20
set $last=$bytes - 1

set mode quit firstdone

define file name=bigfile,path=$dir,size=$filesize,prealloc

define process name=reader
{
  thread name=reader,instances=$nthreads
  {
    flowop read name=read,filename=bigfile,iosize=$iosize,random
    flowop finishonbytes name=all-read,value=$last
  }
}

run
